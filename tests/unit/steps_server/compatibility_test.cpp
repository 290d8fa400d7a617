#include "steps/server/compatibility.hpp"

#include <gtest/gtest.h>

namespace millwright {
namespace {

const Knowledge& shipped() {
  static const Knowledge knowledge = load_knowledge(knowledge_folders()).value();
  return knowledge;
}

CompatibilityReport check(CompatibilityQuery query) {
  const auto report = check_compatibility(shipped(), query);
  EXPECT_TRUE(report) << report.error().message;
  return report.value_or(CompatibilityReport{});
}

TEST(Compatibility, TheFoundingModelIsTooNewForTheFoundingEngine) {
  const CompatibilityReport old = check({"Qwen/Qwen3.6-27B", "sglang", "0.5.9", {}, {}});
  EXPECT_EQ(old.verdict, Compatibility::refused);
  EXPECT_EQ(old.findings.front().cure, "sglang >=0.5.10");
  EXPECT_FALSE(old.findings.front().source.empty());
  EXPECT_EQ(old.reasoning_parser, "qwen3");
  EXPECT_EQ(old.tool_parser, "qwen3_coder");
  const CompatibilityReport between = check({"Qwen/Qwen3.6-27B", "sglang", "0.5.10", {}, {}});
  EXPECT_EQ(between.verdict, Compatibility::warned) << "0.5.11 by hearsay";
  EXPECT_EQ(check({"Qwen/Qwen3.6-27B", "sglang", "0.5.11", {}, {}}).verdict, Compatibility::fits);
}

TEST(Compatibility, CopiesOfAModelAreItsKindAndOthersAreNot) {
  EXPECT_EQ(check({"qwen/qwen3.6-27b-fp8", "sglang", "0.5.9", {}, {}}).verdict, Compatibility::refused);
  EXPECT_EQ(check({"Google/gemma-4-12B-it", "vllm", "0.22.0", {}, {}}).verdict, Compatibility::refused);
  EXPECT_EQ(check({"Google/gemma-4-12B-it-AWQ", "vllm", "0.23.0", {}, {}}).verdict, Compatibility::fits);
  EXPECT_EQ(check({"Google/gemma-4-12B-item", "vllm", "0.22.0", {}, {}}).verdict, Compatibility::unknown);
  EXPECT_EQ(check({"nobody/knows", "vllm", "0.22.0", {}, {}}).verdict, Compatibility::unknown);
  EXPECT_EQ(check({"gemma3", "llama.cpp", "0.1.10", {}, {}}).verdict, Compatibility::warned);
}

TEST(Compatibility, AnUpgradeMayNeedADriverAndAGpu) {
  const CompatibilityReport driver = check({"Qwen/Qwen3.6-27B", "sglang", "0.5.11", 8.6, 550});
  EXPECT_EQ(driver.verdict, Compatibility::warned);
  EXPECT_EQ(driver.findings.back().cure, "") << "the GPU is new enough";
  bool named = false;
  for (const CompatibilityFinding& finding : driver.findings)
    named |= finding.cure == "a driver of branch 580 or later";
  EXPECT_TRUE(named);
  EXPECT_EQ(check({"Qwen/Qwen3.6-27B", "sglang", "0.5.11", 8.6, 580}).verdict, Compatibility::fits);
  EXPECT_EQ(check({"Qwen/Qwen3.6-27B", "sglang", "0.5.11", 7.0, 580}).verdict, Compatibility::refused) << "Volta";
}

TEST(Compatibility, WhatIsNoVersionIsSaid) {
  const auto report = check_compatibility(shipped(), {"m", "vllm", "newest", {}, {}});
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().kind, ErrorKind::usage);
}

TEST(Compatibility, EveryRowOfTheDataCanBeRead) {
  int rows = 0;
  for (const Value& family : shipped().file("models").at("models")) {
    const std::string model = family.contains("names") ? family.at("names").front().get<std::string>()
                                                       : family.at("architecture").get<std::string>();
    for (const Value& row : family.at("engines")) {
      const std::string id = model.substr(0, model.find('*'));
      for (const char* version : {"0.0.1", "9999.0"}) {
        const CompatibilityReport report = check({id, row.at("engine").get<std::string>(), version, {}, {}});
        EXPECT_EQ(report.verdict == Compatibility::unknown, !row.contains("versions")) << model;
      }
      ++rows;
    }
  }
  EXPECT_GT(rows, 180);
}

}  // namespace
}  // namespace millwright
