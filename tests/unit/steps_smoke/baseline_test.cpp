#include "steps/smoke/baseline.hpp"

#include <gtest/gtest.h>

#include "direct_http.hpp"
#include "rules_fixture.hpp"
#include "tests/support/replay_surface.hpp"

namespace millwright {
namespace {

SmokeReport healthy(std::optional<double> first_token, std::optional<double> tokens_per_second) {
  ManualClock clock;
  DirectHttp http(engine_surface("vllm", healthy_answer), clock);
  SmokeOptions options;
  options.url = "http://server:1";
  SmokeReport report = run_smoke(http, clock, *shipped_rules(), options);
  report.first_token_seconds = first_token;
  report.tokens_per_second = tokens_per_second;
  return report;
}

SmokeReport compared(SmokeReport now, const SmokeReport& then) {
  const auto baseline = read_baseline(to_json(then).dump());
  EXPECT_TRUE(baseline) << baseline.error().message;
  compare_with_baseline(now, *baseline, *shipped_rules());
  return now;
}

TEST(Baseline, MuchSlowerIsUsableAndNamed) {
  const SmokeReport slow = compared(healthy(0.1, 12), healthy(0.1, 40));
  EXPECT_EQ(slow.verdict, VerdictKind::degraded);
  EXPECT_EQ(slow.symptom_class, "slower_than_baseline");
  EXPECT_FALSE(slow.first_remedy.empty());
  EXPECT_EQ(slow.probes.back().name, "speed");
  EXPECT_EQ(slow.probes.back().summary, "12.0 tokens/s, was 40.0, first text after 0.10 s, was 0.10 s");
  EXPECT_EQ(compared(healthy(2.0, 40), healthy(0.5, 40)).symptom_class, "slower_than_baseline");
}

TEST(Baseline, NoiseAndFasterRunsPass) {
  EXPECT_EQ(compared(healthy(0.12, 36), healthy(0.1, 40)).verdict, VerdictKind::pass);
  EXPECT_EQ(compared(healthy(0.2, 40), healthy(0.02, 40)).verdict, VerdictKind::pass);
  EXPECT_EQ(compared(healthy(0.01, 90), healthy(0.1, 40)).verdict, VerdictKind::pass);
  const SmokeReport nothing = compared(healthy({}, {}), healthy(0.1, 40));
  EXPECT_EQ(nothing.verdict, VerdictKind::pass);
  EXPECT_EQ(nothing.probes.back().verdict, ProbeVerdict::skipped);
}

TEST(Baseline, FewerRightAnswersThanBeforeFail) {
  const auto scored = [](double accuracy, double speed) {
    SmokeReport report = healthy(0.1, speed);
    report.accuracy = accuracy;
    return report;
  };
  const SmokeReport dropped = compared(scored(0.56, 40), scored(0.66, 40));
  EXPECT_EQ(dropped.verdict, VerdictKind::fail);
  EXPECT_EQ(dropped.symptom_class, "accuracy_drop");
  EXPECT_EQ(dropped.probes.back().summary, "56 % right, was 66 %");
  EXPECT_EQ(compared(scored(0.58, 40), scored(0.66, 40)).verdict, VerdictKind::pass) << "0.08 less is noise";
  EXPECT_EQ(compared(scored(0.9, 40), scored(0.66, 40)).verdict, VerdictKind::pass);
  EXPECT_EQ(compared(scored(0.4, 10), scored(0.66, 40)).symptom_class, "accuracy_drop") << "the graver of the two";
  EXPECT_EQ(compared(healthy(0.1, 40), scored(0.66, 40)).verdict, VerdictKind::pass) << "nothing to compare";
}

TEST(Baseline, AFailureStaysWhatItIs) {
  SmokeReport failed = healthy(9, 1);
  failed.verdict = VerdictKind::fail;
  failed.symptom_class = "gibberish";
  EXPECT_EQ(compared(failed, healthy(0.1, 40)).symptom_class, "gibberish");
}

TEST(Baseline, WhatIsNoReportIsRefused) {
  for (const char* text : {"", "{", "[]", "42", R"({"verdict":"pass"})"}) {
    const auto read = read_baseline(text);
    ASSERT_FALSE(read) << text;
    EXPECT_FALSE(read.error().hint.empty());
  }
}

}  // namespace
}  // namespace millwright
