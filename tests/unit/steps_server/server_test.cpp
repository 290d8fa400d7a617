#include <gtest/gtest.h>

#include "steps/server/release.hpp"
#include "steps/server/server_step.hpp"

namespace millwright {
namespace {

const Value kArchive = {{"method", "archive"}, {"url", "https://h/a.tar.gz"}, {"sha256", std::string(64, 'a')}};

class ServerTest : public ::testing::Test {
 protected:
  ServerTest()
      : knowledge_(*load_knowledge({SOURCE_DIR "/playbooks/knowledge"})),
        profile_(engine_profile(knowledge_, "llama.cpp").value()),
        step_(knowledge_) {}

  Inputs inputs(Value given) {
    if (!given.contains("model")) given["model"] = "/srv/m.gguf";
    return Inputs(check_inputs(step_.signature(), given).value());
  }
  Release release(const Value& given) {
    const auto spec = server_spec(profile_, inputs(given));
    EXPECT_TRUE(spec.has_value()) << spec.error().message;
    return make_release(*spec, profile_, "identity", "run");
  }

  Knowledge knowledge_;
  EngineProfile profile_;
  ServerStep step_;
};

TEST_F(ServerTest, LatestKnownGoodPrefersTheUsersOwnSources) {
  EXPECT_EQ(*resolve_version(profile_, inputs({})), profile_.known_good.front());
  EXPECT_EQ(*resolve_version(profile_, inputs({{"sources", {{"0.7.0", kArchive}}}})), "0.7.0");
  EXPECT_EQ(*resolve_version(profile_, inputs({{"sources", {{"0.7.0", kArchive}, {"2026.10.11549", kArchive}}}})),
            "2026.10.11549");
  EXPECT_EQ(*resolve_version(profile_, inputs({{"sources", {{"0.1.9", kArchive}, {"0.1.10", kArchive}}}})), "0.1.10");
  EXPECT_EQ(*resolve_version(profile_, inputs({{"version", "0.1.9"}, {"sources", {{"0.1.9", kArchive}}}})), "0.1.9");
  const auto unknown = resolve_version(profile_, inputs({{"version", "9.9"}}));
  ASSERT_FALSE(unknown.has_value());
  EXPECT_NE(unknown.error().hint.find("2026.10.11549"), std::string::npos);
}

TEST_F(ServerTest, ACommandHasTheEnginesOwnFlagsAndNoSecret) {
  const Release made = release({{"context", 4096},
                                {"served_name", "tiny"},
                                {"api_key", "s3cret-key"},
                                {"extra_flags", {"--jinja"}},
                                {"env", {{"A", "x \"y\""}}}});
  EXPECT_EQ(
      made.run,
      "#!/bin/sh\nexec /opt/millwright/engines/llama.cpp-2026.10.11549/bin/llama-server --model /srv/m.gguf --alias "
      "tiny "
      "--host 127.0.0.1 --port 8080 --ctx-size 4096 --api-key-file /var/lib/millwright/servers/llm/current/api_key "
      "--jinja\n");
  EXPECT_EQ(made.env, "A=\"x \\\"y\\\"\"\n");
  EXPECT_EQ(made.unit.find("s3cret"), std::string::npos);
  EXPECT_EQ(made.record.dump().find("s3cret"), std::string::npos);
}

TEST_F(ServerTest, WhateverMakesADifferenceMakesAnotherRelease) {
  const std::string same = release({}).digest;
  EXPECT_EQ(release({}).digest, same);
  for (const Value& given : {Value({{"port", 8081}}), Value({{"model_sha256", "b"}}), Value({{"env", {{"A", "1"}}}}),
                             Value({{"api_key", "abcd"}}), Value({{"extra_flags", {"--jinja"}}})}) {
    EXPECT_NE(release(given).digest, same) << given;
  }
}

TEST_F(ServerTest, WhatIsDeployedIsReadFromTheNode) {
  Answers answers;
  answers.set("current", {0, "releases/3\n", ""});
  answers.set("releases", {0,
                           "1 {\"model_sha256\":\"m\",\"made_by_run\":\"a\"}\n2 "
                           "{\"model_sha256\":\"m\",\"made_by_run\":\"b\"}\n10 \n3 {}\n",
                           ""});
  answers.set("record", {0, R"({"digest":"d","run_sha256":"r","unit_sha256":"u"})", ""});
  answers.set("files", {0, "r\nu\n", ""});
  answers.set("active", {0, "active\n", ""});
  answers.set("model", {0, "there\n", ""});
  answers.set("port", {0, "LISTEN 0 5 127.0.0.1:8080 0.0.0.0:* users:((\"python3\",pid=77,fd=3))\n", ""});
  const DeployedServer found = read_deployed(answers);
  EXPECT_EQ(found.current, 3);
  EXPECT_EQ(found.highest, 10);
  EXPECT_TRUE(found.files_unchanged);
  EXPECT_NE(found.port_holder.find("pid=77"), std::string::npos);
  EXPECT_EQ(release_before(found, "m", "b"), 1);
  EXPECT_EQ(release_before(found, "m", "c"), 2);
  EXPECT_EQ(release_before(found, "other", "c"), std::nullopt);
  answers.set("files", {0, "r\nx\n", ""});
  EXPECT_FALSE(read_deployed(answers).files_unchanged);
}

TEST_F(ServerTest, EnvironmentsAreCompleteOrInstalledOrRefused) {
  const InstallJob job{"llama.cpp", "0.7.0", kArchive, "bin/llama-server", ""};
  Answers answers;
  answers.set("environment", {0, "", ""});
  const auto fresh = plan_environment(job, answers);
  ASSERT_EQ(fresh->actions.size(), 1U);
  EXPECT_NE(fresh->actions[0].script.find("curl"), std::string::npos);
  answers.set("environment", {0, archive_installer().identity(job) + "\n", ""});
  EXPECT_TRUE(plan_environment(job, answers)->empty());
  answers.set("environment", {0, "archive sha256:other\n", ""});
  EXPECT_EQ(plan_environment(job, answers).error().kind, ErrorKind::refused);
}

TEST_F(ServerTest, WheelsArePinnedAndPythonIsChecked) {
  const InstallJob job{"llama.cpp", "2026.10.11549", profile_.sources.at("2026.10.11549"), "bin/llama-server",
                       "print()"};
  Answers answers;
  answers.set("environment", {0, "", ""});
  answers.set("python", {0, "3.11\nvenv\n", ""});
  answers.set("missing", {0, "", ""});
  const auto ready = plan_environment(job, answers);
  ASSERT_EQ(ready->actions.size(), 1U);
  EXPECT_NE(ready->actions[0].script.find("--require-hashes"), std::string::npos);
  answers.set("python", {0, "3.11\nbare\n", ""});
  answers.set("missing", {0, "libgomp1\npython3-venv\n", ""});
  EXPECT_EQ(plan_environment(job, answers)->actions.at(0).title, "install libgomp1, python3-venv");
  answers.set("python", {0, "3.9\nvenv\n", ""});
  EXPECT_NE(plan_environment(job, answers).error().message.find("needs Python 3.10"), std::string::npos);
}

TEST_F(ServerTest, WrongInputsAreNamed) {
  const auto errors = step_.check(
      inputs({{"name", "Not Good"}, {"sources", {{"1", {{"method", "magic"}}}, {"2", {{"method", "archive"}}}}}}));
  ASSERT_EQ(errors.size(), 4U);
  EXPECT_EQ(errors[0].detail, "name");
  EXPECT_NE(errors[1].message.find("version 1"), std::string::npos);
  // What is not known before the run is not wrong.
  EXPECT_TRUE(step_.check(inputs({{"sources", {{"2", {{"method", "archive"}, {"path", nullptr}}}}}})).empty());
}

}  // namespace
}  // namespace millwright
