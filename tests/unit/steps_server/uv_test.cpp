#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "orchestrator/base/knowledge.hpp"
#include "steps/server/engine_installer.hpp"
#include "steps/server/engine_profile.hpp"
#include "steps/server/python_wheels.hpp"

namespace millwright {
namespace {

constexpr const char* kNode =
    "machine x86_64\nglibc glibc 2.36\nfree 52428800\nflags fpu avx avx2 sse\npython 3.11 /usr/bin/python3\n"
    "python 3.12 /usr/bin/python3.12\n";

InstallJob job_for(const std::string& engine, const std::string& version) {
  const auto knowledge = load_knowledge({SOURCE_DIR "/playbooks/knowledge"});
  const auto profile = engine_profile(*knowledge, engine);
  Value source = profile->sources.at(version);
  for (const auto& [key, value] : profile->methods.at("uv").items()) {
    if (!source.contains(key)) source[key] = value;
  }
  auto job = install_job(engine, version, source, profile->executable);
  if (!job) throw std::runtime_error(render(job.error()));
  return *job;
}

Answers node(std::string platform = kNode, const std::string& uv = "", const std::string& missing = "") {
  Answers out;
  out.set("platform", {0, std::move(platform), ""});
  out.set("venv", {0, "venv\n", ""});
  out.set("uv", {0, uv, ""});
  out.set("missing", {0, missing, ""});
  out.set("environment", {0, "", ""});
  out.set("environment_damage", {0, "", ""});
  return out;
}

std::string replaced(const std::string& from, const std::string& to) {
  std::string out = kNode;
  return out.replace(out.find(from), from.size(), to);
}

Error refusal(const InstallJob& job, const std::string& platform) {
  const auto plan = plan_environment(job, node(platform));
  EXPECT_FALSE(plan.has_value()) << platform;
  return plan ? Error{} : plan.error();
}

TEST(Uv, EveryEnvironmentOfTheDataHasALockForEachOfItsPythons) {
  const auto knowledge = load_knowledge({SOURCE_DIR "/playbooks/knowledge"});
  int seen = 0;
  for (const std::string& engine : known_engines(*knowledge)) {
    const auto profile = engine_profile(*knowledge, engine);
    for (const auto& [version, source] : profile->sources.items()) {
      if (source_text(source, "method") != "uv") continue;
      const InstallJob job = job_for(engine, version);
      for (const Value& python : source.at("pythons")) {
        const auto lock = job.locks.find("x86_64-py" + python.get<std::string>());
        ASSERT_NE(lock, job.locks.end()) << engine << version << python;
        const std::vector<PinnedPackage> packages = parse_requirements(lock->second);
        EXPECT_GT(packages.size(), 100u);
        for (const PinnedPackage& package : packages) {
          ASSERT_EQ(package.sha256.size(), 1u) << package.name;
          EXPECT_EQ(package.sha256.front().size(), 64u) << package.name;
        }
        ++seen;
      }
      EXPECT_EQ(job.locks.size(), source.at("pythons").size()) << "no lock that nobody asked for";
    }
  }
  EXPECT_GE(seen, 12);
}

TEST(Uv, TheNodesOwnPythonIsTakenWhereItHasALockElseAnother) {
  const InstallJob job = job_for("sglang", "0.5.9");
  const auto script = [&](const std::string& platform) {
    return plan_environment(job, node(platform))->actions.back().script;
  };
  EXPECT_NE(script(kNode).find("--python /usr/bin/python3 "), std::string::npos);
  EXPECT_NE(script(kNode).find("for Python 3.11"), std::string::npos);
  const std::string newer = script(replaced("python 3.11 /usr/bin/python3\n", "python 3.13 /usr/bin/python3\n"));
  EXPECT_NE(newer.find("--python /usr/bin/python3.12 "), std::string::npos);
  EXPECT_NE(newer.find("for Python 3.12"), std::string::npos);
}

TEST(Uv, WhatStandsInTheWayIsNamedWithItsCureBeforeAnythingIsDone) {
  const InstallJob job = job_for("sglang", "0.5.11");
  const Error python = refusal(job, "machine x86_64\nglibc glibc 2.36\nfree 52428800\nflags avx2\npython 3.13 /p\n");
  EXPECT_EQ(python.kind, ErrorKind::refused);
  EXPECT_EQ(python.message, "sglang 0.5.11 runs on Python 3.10, 3.11, 3.12; the node has 3.13");
  EXPECT_NE(python.hint.find("install python3.12"), std::string::npos) << python.hint;
  EXPECT_NE(refusal(job, replaced("2.36", "2.31")).message.find("needs the C library 2.34, the node has 2.31"),
            std::string::npos);
  EXPECT_NE(refusal(job, replaced("glibc glibc 2.36", "glibc")).message.find("GNU C library"), std::string::npos);
  EXPECT_NE(refusal(job, replaced("x86_64", "riscv64")).message.find("no lock for riscv64"), std::string::npos);
  const Error space = refusal(job, replaced("52428800", "1048576"));
  EXPECT_EQ(space.symptom_class, "disk_full");
  EXPECT_NE(space.message.find("1.0 GiB are free"), std::string::npos) << space.message;
  EXPECT_NE(refusal(job_for("vllm", "0.32.0+cpu"), replaced("avx2 ", "")).message.find("avx2"), std::string::npos);
}

TEST(Uv, WhereAnotherVersionIsOnlyTheImpossibleIsRefused) {
  const InstallJob job = job_for("sglang", "0.5.11");
  EXPECT_FALSE(plan_environment(job, node(replaced("52428800", "4194304"))).has_value());
  EXPECT_TRUE(plan_environment(job, node(replaced("52428800", "4194304") + "cache\n")).has_value());
}

TEST(Uv, ABuildForTheProcessorIsFoundUnderTheNameThatItLooksItselfUpBy) {
  const auto plan = plan_environment(job_for("vllm", "0.32.0+cpu"), node());
  ASSERT_TRUE(plan.has_value()) << render(plan.error());
  EXPECT_NE(plan->actions.back().script.find("vllm-0.32.0+cpu.dist-info"), std::string::npos);
  EXPECT_NE(plan->actions.back().script.find("Version: 0.32.0+cpu"), std::string::npos);
}

TEST(Uv, UvItselfIsInstalledOnceAndPinned) {
  const InstallJob job = job_for("sglang", "0.5.9");
  const Change first = *plan_environment(job, node());
  ASSERT_EQ(first.actions.size(), 2u);
  EXPECT_EQ(first.actions[0].title.rfind("install uv ", 0), 0u);
  EXPECT_NE(first.actions[0].script.find("--require-hashes"), std::string::npos);
  EXPECT_EQ(first.actions[1].title, "install sglang 0.5.9 in /opt/millwright/engines/sglang-0.5.9");
  const Value pinned = job.source.at("uv");
  std::string there = "uv==" + pinned.at("version").get<std::string>();
  for (const Value& hash : pinned.at("sha256")) there += " --hash=sha256:" + hash.get<std::string>();
  EXPECT_EQ(plan_environment(job, node(kNode, there + "\n"))->actions.size(), 1u);
  EXPECT_EQ(plan_environment(job, node(kNode, there + "\n", "g++\n"))->actions.size(), 2u);
}

TEST(Uv, AnotherLockIsAnotherEnvironment) {
  InstallJob job = job_for("sglang", "0.5.9");
  Answers there = node();
  there.set("environment", {0, uv_installer().identity(job) + "\n", ""});
  EXPECT_TRUE(plan_environment(job, there)->empty());
  job.locks.begin()->second += "one-more==1 --hash=sha256:00\n";
  const auto other = plan_environment(job, there);
  ASSERT_FALSE(other.has_value());
  EXPECT_NE(other.error().message.find("another build"), std::string::npos);
}

TEST(Uv, ALockOfOnesOwnSaysWhatItIsFor) {
  const std::string path = std::filesystem::temp_directory_path() / ("uv-lock-" + std::to_string(::getpid()));
  const Value source = {{"method", "uv"}, {"lock", path}};
  const auto with = [&](const std::string& text) {
    std::ofstream(path) << text;
    return install_job("sglang", "9.9", source, "bin/sglang-server");
  };
  EXPECT_EQ(with("# x, for Python 3.11 on x86_64.\na==1 --hash=sha256:00\n")->locks.count("x86_64-py3.11"), 1u);
  EXPECT_NE(with("a==1\n").error().hint.find("for Python 3.11"), std::string::npos);
  std::filesystem::remove(path);
  EXPECT_EQ(install_job("sglang", "9.9", source, "x").error().kind, ErrorKind::io);
  EXPECT_EQ(install_job("sglang", "9.9", {{"method", "uv"}, {"requirements", {"x"}}}, "x").error().kind, ErrorKind::io);
}

TEST(Uv, ASourceThatCannotWorkIsFoundAtOnce) {
  EXPECT_EQ(uv_installer().check({{"method", "uv"}}).size(), 1u);
  EXPECT_EQ(uv_installer().check({{"method", "uv"}, {"lock", "l"}, {"entry", "-m x"}}).size(), 1u);
  EXPECT_EQ(uv_installer().check({{"method", "uv"}, {"lock", "l"}, {"ca_bundle", "own.pem"}}).size(), 1u);
  EXPECT_TRUE(uv_installer().check({{"method", "uv"}, {"lock", "l"}, {"ca_bundle", "node:/etc/own.pem"}}).empty());
}

TEST(Downloads, GoTheWayThatASourceSays) {
  const std::string own = download_settings({{"proxy", "http://proxy:3128"},
                                             {"no_proxy", "intra"},
                                             {"ca_bundle", "node:/etc/own.pem"},
                                             {"index", "http://i/simple"}});
  for (const char* part :
       {"HTTPS_PROXY=http://proxy:3128", "no_proxy=intra", "SSL_CERT_FILE=/etc/own.pem", "PIP_CERT=/etc/own.pem",
        "CURL_CA_BUNDLE=/etc/own.pem", "UV_DEFAULT_INDEX=http://i/simple"}) {
    EXPECT_NE(own.find(part), std::string::npos) << part;
  }
  EXPECT_NE(download_settings(Value::object()).find("ca-certificates.crt"), std::string::npos);
}

TEST(Requirements, AreReadAsPipWritesThem) {
  const auto packages =
      parse_requirements("# head\na==1.0 --hash=sha256:aa \\\n  --hash=sha256:bb\n\n-r other\nb.c==2+cpu\n");
  ASSERT_EQ(packages.size(), 2u);
  EXPECT_EQ(packages[0].sha256, (std::vector<std::string>{"aa", "bb"}));
  EXPECT_EQ(packages[1].version, "2+cpu");
  EXPECT_EQ(requirements_text(packages), "a==1.0 --hash=sha256:aa --hash=sha256:bb\nb.c==2+cpu\n");
}

}  // namespace
}  // namespace millwright
