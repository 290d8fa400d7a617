#include "steps/server/releases.hpp"

#include <gtest/gtest.h>

#include <filesystem>

#include "orchestrator/base/text.hpp"
#include "tests/unit/steps_core/real_shell.hpp"

namespace millwright {
namespace {

namespace fs = std::filesystem;

// A node's folders, made for real, with the scripts that look at them and clean them.
class ReleasesTest : public ::testing::Test {
 protected:
  void release(const std::string& server, int number, const std::string& version, const std::string& verified = {},
               const std::vector<std::string>& command = {"/bin/x", "a b"}) {
    const std::string folder = "var/servers/" + server + "/releases/" + std::to_string(number) + "/";
    const std::string environment = "/opt/millwright/engines/sglang-" + version;
    const Value record = {{"server", server},           {"engine", "sglang"},    {"version", version},
                          {"environment", environment}, {"model", "/srv/gemma"}, {"model_sha256", std::string(64, 'a')},
                          {"host", "0.0.0.0"},          {"port", 30000},         {"device", "cpu"},
                          {"made_by_run", "r1"},        {"command", command}};
    shell_.write(folder + "release.json", replace_all(record.dump(2), "/opt/millwright", shell_.path("opt")));
    shell_.write(folder + "run", "#!/bin/sh\nexec " + shell_.path("opt/engines/sglang-" + version) + "/bin/serve\n");
    if (!verified.empty()) shell_.write(folder + "verified", verified + " r1\n");
  }
  void current(const std::string& server, int number) {
    const std::string link = shell_.path("var/servers/" + server + "/current");
    fs::remove(link);
    fs::create_symlink("releases/" + std::to_string(number), link);
  }
  void environment(const std::string& version, bool whole = true) {
    shell_.write("opt/engines/sglang-" + version + "/bin/serve", std::string(5000, 'x'));
    if (whole) shell_.write("opt/engines/sglang-" + version + "/.millwright-environment", "uv\n");
  }
  Answer run(std::string script) const {
    script = replace_all(std::move(script), "/var/lib/millwright", shell_.path("var"));
    return shell_.run(replace_all(std::move(script), "/opt/millwright", shell_.path("opt")), "-eu");
  }
  NodeReleases look() const {
    const Answer answer = run(releases_script());
    EXPECT_TRUE(answer.ok()) << answer.err;
    auto found = parse_releases(answer.out);
    EXPECT_TRUE(found.has_value()) << found.error().message;
    return found.value_or(NodeReleases{});
  }

  testing_tools::RealShell shell_;
};

TEST_F(ReleasesTest, ANodeWithoutServersHasNone) {
  const NodeReleases none = look();
  EXPECT_TRUE(none.servers.empty() && none.environments.empty());
  EXPECT_EQ(releases_table("gpu1", none), "gpu1: no server of millwright\n");
  EXPECT_TRUE(unneeded(none).empty());
}

TEST_F(ReleasesTest, WhatIsThereIsListed) {
  environment("0.5.9");
  environment("0.5.11");
  environment("0.5.23", false);
  release("llm", 1, "0.5.9", "pass 2026-11-30T10:00:00Z");
  release("llm", 2, "0.5.11");
  current("llm", 2);
  const NodeReleases found = look();
  ASSERT_EQ(found.servers.size(), 1U);
  const ServerRow& server = found.servers[0];
  EXPECT_EQ(server.host, "127.0.0.1");
  EXPECT_EQ(server.port, 30000);
  ASSERT_EQ(server.releases.size(), 2U);
  EXPECT_EQ(server.releases[0].verdict, "pass");
  EXPECT_EQ(server.releases[0].verified_at, "2026-11-30T10:00:00Z");
  EXPECT_EQ(server.releases[0].command, "/bin/x 'a b'");
  EXPECT_TRUE(server.releases[1].current && !server.releases[1].verified());
  ASSERT_EQ(found.environments.size(), 3U);
  EXPECT_GT(found.together, 3U * 4096U);
  const std::string table = releases_table("gpu1", found);
  EXPECT_NE(
      table.find("llm   1        sglang 0.5.9   gemma (aaaaaaaaaaaa)  30000  -        pass 2026-11-30T10:00:00Z\n"),
      std::string::npos)
      << table;
  EXPECT_NE(table.find("current, "), std::string::npos) << table;
  EXPECT_NE(table.find("its installation was interrupted"), std::string::npos) << table;
  const Value json = releases_json("gpu1", found);
  EXPECT_EQ(json["servers"][0]["releases"][1]["verified"], nullptr);
  EXPECT_EQ(json["environments"][0]["used_by"], Value({"llm 2"}));
}

TEST_F(ReleasesTest, PortContextAndFlagsOfEachReleaseAreShown) {
  release(
      "llm", 1, "0.5.9", "",
      {"/opt/x/bin/python", "-m", "sglang.launch_server", "--model-path", "/srv/gemma", "--host", "0.0.0.0", "--port",
       "30000", "--context-length", "2048", "--served-model-name", "tiny", "--tp-size", "2", "--chat-template", "a b"});
  release("llm", 2, "0.5.11", "", {"/opt/x/bin/vllm", "serve", "/srv/gemma", "--port", "8001", "--max-model-len=4k"});
  release("llm", 3, "0.5.11", "", {"/opt/x/bin/llama-server", "--model", "/m.gguf", "-c", "512", "--jinja", "-c"});
  current("llm", 2);
  const NodeReleases found = look();
  const auto& rows = found.servers.at(0).releases;
  EXPECT_EQ(rows.at(0).context, "2048");
  EXPECT_EQ(rows.at(0).flags, (std::vector<std::string>{"--tp-size", "2", "--chat-template", "a b"}));
  EXPECT_EQ(rows.at(1).context, "4k");
  EXPECT_TRUE(rows.at(1).flags.empty());
  EXPECT_EQ(rows.at(2).context, "512");
  EXPECT_EQ(rows.at(2).flags, std::vector<std::string>{"--jinja"}) << "a flag without a value is the last word";
  const std::string shown = releases_table("gpu1", found, ReleaseFlags::shown);
  EXPECT_NE(shown.find("30000  2048 "), std::string::npos) << shown;
  EXPECT_NE(shown.find("llm     1        --tp-size 2 --chat-template 'a b'\n"), std::string::npos) << shown;
  EXPECT_EQ(releases_table("gpu1", found).find("--tp-size"), std::string::npos);
  const Value json = releases_json("gpu1", found)["servers"][0]["releases"];
  EXPECT_EQ(json[0]["flags"], Value({"--tp-size", "2", "--chat-template", "a b"}));
  EXPECT_EQ(json[0]["context"], "2048");
  EXPECT_EQ(json[0]["port"], 30000);
}

TEST_F(ReleasesTest, TheLastVerifiedOneIsKeptUntilTheNextIsVerified) {
  for (const char* version : {"0.5.6", "0.5.7", "0.5.9", "0.5.11"}) environment(version);
  release("llm", 1, "0.5.6", "pass 2026-11-28T10:00:00Z");
  release("llm", 2, "0.5.7", "degraded 2026-11-29T10:00:00Z");
  release("llm", 3, "0.5.9");
  release("llm", 4, "0.5.11");
  current("llm", 4);
  const Unneeded before = unneeded(look());
  EXPECT_EQ(before.releases, (std::vector<std::pair<std::string, int>>{{"llm", 1}, {"llm", 3}}));
  ASSERT_EQ(before.environments.size(), 2U);
  EXPECT_TRUE(ends_with(before.environments[0].folder, "sglang-0.5.6"));
  EXPECT_TRUE(ends_with(before.environments[1].folder, "sglang-0.5.9"));
  release("llm", 4, "0.5.11", "pass 2026-11-30T10:00:00Z");
  EXPECT_EQ(unneeded(look()).releases.size(), 3U);
  // Gone back to, the older one is what runs, and the newer one is the last verified.
  current("llm", 2);
  const Unneeded after = unneeded(look());
  EXPECT_EQ(after.releases, (std::vector<std::pair<std::string, int>>{{"llm", 1}, {"llm", 3}}));
}

TEST_F(ReleasesTest, WhatNothingNeedsIsRemovedAndNothingElse) {
  for (const char* version : {"0.5.9", "0.5.11"}) environment(version);
  environment("0.5.23", false);
  release("llm", 1, "0.5.9");
  release("llm", 2, "0.5.11");
  current("llm", 2);
  shell_.write("opt/cache/x", "shared");
  const Answer done = run(prune_script(unneeded(look())));
  EXPECT_TRUE(done.ok()) << done.err;
  EXPECT_FALSE(fs::exists(shell_.path("var/servers/llm/releases/1")));
  EXPECT_FALSE(fs::exists(shell_.path("opt/engines/sglang-0.5.9")));
  EXPECT_FALSE(fs::exists(shell_.path("opt/engines/sglang-0.5.23")));
  EXPECT_TRUE(fs::exists(shell_.path("opt/engines/sglang-0.5.11/bin/serve")));
  EXPECT_TRUE(fs::exists(shell_.path("opt/cache/x"))) << "environments are left that may share it";
  EXPECT_EQ(shell_.read("var/servers/llm/last"), "1\n") << "a number is never used again";
  EXPECT_TRUE(unneeded(look()).empty());
}

TEST_F(ReleasesTest, WhatHasComeIntoUseSinceIsLeft) {
  environment("0.5.9");
  environment("0.5.11");
  release("llm", 1, "0.5.9");
  release("llm", 2, "0.5.11");
  current("llm", 2);
  const Unneeded gone = unneeded(look());
  current("llm", 1);
  const Answer done = run(prune_script(gone));
  EXPECT_EQ(done.exit_code, 1);
  EXPECT_NE(done.err.find("release 1 of llm runs now"), std::string::npos) << done.err;
  EXPECT_TRUE(fs::exists(shell_.path("var/servers/llm/releases/1/run")));
  EXPECT_TRUE(fs::exists(shell_.path("opt/engines/sglang-0.5.9"))) << "its environment is in use with it";
}

TEST_F(ReleasesTest, TheLastEnvironmentTakesWithItWhatTheyShared) {
  environment("0.5.9");
  shell_.write("opt/cache/x", "shared");
  EXPECT_TRUE(run(prune_script(unneeded(look()))).ok());
  EXPECT_FALSE(fs::exists(shell_.path("opt")));
}

TEST_F(ReleasesTest, ADamagedAnswerIsAnError) {
  EXPECT_FALSE(parse_releases("bash: warning\n").has_value());
  EXPECT_FALSE(parse_releases("server llm active releases/1\nrelease 1 {\"a\"\n").has_value());
}

}  // namespace
}  // namespace millwright
