#include "steps/smoke/remedies.hpp"

#include <gtest/gtest.h>

#include "rules_fixture.hpp"

namespace millwright {
namespace {

const LadderAdvisor& shipped_advisor() {
  static const auto advisor = [] {
    auto made = LadderAdvisor::from(shipped_knowledge());
    if (!made) throw std::runtime_error(render(made.error()));
    return std::move(*made);
  }();
  return *advisor;
}

Knowledge small_knowledge() {
  std::map<std::string, Value, std::less<>> files;
  files["classes"] = {{"classes", {{"gibberish", Value::object()}, {"hang", Value::object()}}}};
  files["engines"] = {{"engines",
                       {{"toy",
                         {{"known_good", {{{"version", "0.7.0"}}, {{"version", "0.5.0"}}}},
                          {"sources", {{"0.7.0", Value::object()}}}}}}}};
  files["remedies"] = {{"remedies",
                        {{"flag",
                          {{"title", "f off"},
                           {"kind", "add_flags"},
                           {"flags", {"-f", "off"}},
                           {"versions", "<0.8"},
                           {"degrades", true}}},
                         {"up", {{"title", "newer"}, {"kind", "newer_version"}}},
                         {"down", {{"title", "older"}, {"kind", "older_version"}}},
                         {"back", {{"title", "before"}, {"kind", "previous_release"}}}}},
                       {"ladders", {{"gibberish", {"flag", "up", "down", "back"}}, {"hang", {"up"}}}}};
  return Knowledge(std::move(files));
}

Value toy_inputs(const std::string& version) {
  return {{"engine", "toy"},
          {"version", version},
          {"extra_flags", {"--threads", "2"}},
          {"sources",
           {{"0.4.0", Value::object()},
            {"0.5.0", Value::object()},
            {"0.6.0", Value::object()},
            {"0.9.0", Value::object()}}}};
}

// Asks until nothing is left, noting what was tried as the engine does.
std::vector<std::string> whole_ladder(const LadderAdvisor& advisor, RemedyQuery query) {
  std::vector<std::string> titles;
  while (const auto remedy = advisor.next(query)) {
    titles.push_back(remedy->title);
    query.tried.push_back(remedy->id);
    query.tried.push_back(remedy->id + " " + remedy->set.dump());
    if (titles.size() > 20) break;
  }
  return titles;
}

TEST(LadderAdvisor, FlagsFirstThenVersionsUpThenDownKnownGoodOnesBefore) {
  const auto advisor = LadderAdvisor::from(small_knowledge());
  ASSERT_TRUE(advisor.has_value());
  const RemedyQuery query{"gibberish", toy_inputs("0.6.0"), Value::object(), {}};
  EXPECT_EQ(whole_ladder(**advisor, query),
            (std::vector<std::string>{"f off", "toy 0.6.0 -> 0.7.0", "toy 0.6.0 -> 0.9.0", "toy 0.6.0 -> 0.5.0",
                                      "toy 0.6.0 -> 0.4.0"}));
}

TEST(LadderAdvisor, AFlagIsAddedToWhatIsThereAndSaysThatItDegrades) {
  const auto advisor = LadderAdvisor::from(small_knowledge());
  const auto remedy = (*advisor)->next({"gibberish", toy_inputs("0.6.0"), Value::object(), {}});
  ASSERT_TRUE(remedy.has_value());
  EXPECT_EQ(remedy->id, "flag");
  EXPECT_EQ(remedy->step_kind, "server");
  EXPECT_TRUE(remedy->degrades);
  EXPECT_EQ(remedy->set, (Value{{"extra_flags", {"--threads", "2", "-f", "off"}}}));
}

TEST(LadderAdvisor, AFlagThatIsThereIsNotTriedAndAnotherValueIsReplaced) {
  const auto advisor = LadderAdvisor::from(small_knowledge());
  Value inputs = toy_inputs("0.6.0");
  inputs["extra_flags"] = {"-f", "off"};
  EXPECT_EQ((*advisor)->next({"gibberish", inputs, Value::object(), {}})->id, "up");
  inputs["extra_flags"] = {"-f", "on", "-x"};
  EXPECT_EQ((*advisor)->next({"gibberish", inputs, Value::object(), {}})->set,
            (Value{{"extra_flags", {"-x", "-f", "off"}}}));
}

TEST(LadderAdvisor, LatestKnownGoodIsResolvedLikeTheServerStepDoes) {
  const auto advisor = LadderAdvisor::from(small_knowledge());
  const auto remedy = (*advisor)->next({"hang", toy_inputs("latest-known-good"), Value::object(), {}});
  ASSERT_TRUE(remedy.has_value());
  EXPECT_EQ(remedy->title, "toy 0.7.0 -> 0.9.0");
}

TEST(LadderAdvisor, NothingForStepsWithoutAnEngineOrUnknownClasses) {
  const auto advisor = LadderAdvisor::from(small_knowledge());
  EXPECT_EQ((*advisor)->next({"gibberish", {{"endpoint", "http://x"}}, Value::object(), {}}), std::nullopt);
  EXPECT_EQ((*advisor)->next({"gibberish", nullptr, nullptr, {}}), std::nullopt);
  EXPECT_EQ((*advisor)->next({"", toy_inputs("0.6.0"), Value::object(), {}}), std::nullopt);
}

TEST(LadderAdvisor, ThePreviousReleaseWhereTheServerTakesOne) {
  const auto advisor = LadderAdvisor::from(small_knowledge());
  Value inputs = toy_inputs("0.8.5");
  inputs["sources"] = Value::object();
  inputs["release"] = nullptr;
  RemedyQuery query{"gibberish", inputs, {{"previous_release", 3}}, {"down", "down {\"version\":\"0.7.0\"}"}};
  const auto remedy = (*advisor)->next(query);
  ASSERT_TRUE(remedy.has_value());
  EXPECT_EQ(remedy->set, (Value{{"release", 3}}));
}

TEST(LadderAdvisor, ShippedLaddersNameKnownClassesAndAnOldLlamaCppIsUpgraded) {
  const Value inputs = {{"engine", "llama.cpp"},
                        {"version", "0.1.10"},
                        {"sources", {{"0.1.10", Value::object()}, {"0.7.0", Value::object()}}}};
  const auto remedy = shipped_advisor().next({"model_arch_unsupported", inputs, Value::object(), {}});
  ASSERT_TRUE(remedy.has_value());
  EXPECT_EQ(remedy->title, "llama.cpp 0.1.10 -> 0.7.0");
}

TEST(LadderAdvisor, AReasoningParserThatIsWrongForTheModelGoesFirst) {
  const Value inputs = {{"engine", "sglang"}, {"version", "0.5.11"}, {"reasoning_parser", "qwen3"}};
  const auto remedy = shipped_advisor().next({"answer_in_reasoning", inputs, Value::object(), {}});
  ASSERT_TRUE(remedy.has_value());
  EXPECT_EQ(remedy->set, (Value{{"reasoning_parser", ""}}));
  EXPECT_FALSE(remedy->degrades);
  // Given as a flag it is taken out there; not given at all, a version is next.
  const Value flags = {
      {"engine", "vllm"}, {"version", "0.32.0"}, {"extra_flags", {"--reasoning-parser", "qwen3", "-x"}}};
  EXPECT_EQ(shipped_advisor().next({"answer_in_reasoning", flags, Value::object(), {}})->set,
            (Value{{"extra_flags", {"-x"}}}));
  const Value none = {{"engine", "sglang"}, {"version", "0.5.11"}, {"reasoning_parser", nullptr}};
  EXPECT_EQ(shipped_advisor().next({"answer_in_reasoning", none, Value::object(), {}})->set,
            (Value{{"version", "0.5.23"}}));
}

TEST(LadderAdvisor, NullAnswersOfAnOldSglangAreCuredByTheNextVersion) {
  const Value inputs = {{"engine", "sglang"}, {"version", "0.5.9"}, {"reasoning_parser", "qwen3"}, {"device", "cpu"}};
  const auto remedy = shipped_advisor().next({"immediate_eos_null", inputs, Value::object(), {}});
  ASSERT_TRUE(remedy.has_value());
  EXPECT_EQ(remedy->set, (Value{{"version", "0.5.11"}}));
}

TEST(LadderAdvisor, BuildsForTheProcessorAndTheGpuAreNotExchanged) {
  EXPECT_FALSE(
      shipped_advisor().next({"hang", {{"engine", "vllm"}, {"version", "0.32.0"}}, Value::object(), {}}).has_value());
}

TEST(LadderAdvisor, WhatNeedsAGpuIsNotTriedOnTheProcessor) {
  Value inputs = {{"engine", "sglang"}, {"version", "0.5.11"}, {"device", "cuda"}};
  EXPECT_EQ(shipped_advisor().next({"cuda_graph_corruption", inputs, Value::object(), {}})->id, "sglang-graphs-off");
  inputs["device"] = "cpu";
  EXPECT_EQ(shipped_advisor().next({"cuda_graph_corruption", inputs, Value::object(), {}})->id, "newer-version");
}

TEST(LadderAdvisor, WrongDataIsRefused) {
  std::map<std::string, Value, std::less<>> files;
  files["classes"] = {{"classes", Value::object()}};
  files["remedies"] = {{"remedies", Value::object()}, {"ladders", {{"gibberish", {"x"}}}}};
  const auto advisor = LadderAdvisor::from(Knowledge(files));
  ASSERT_FALSE(advisor.has_value());
  EXPECT_EQ(advisor.error().message, "knowledge file remedies.yml: class 'gibberish' is not in classes.yml");
}

}  // namespace
}  // namespace millwright
