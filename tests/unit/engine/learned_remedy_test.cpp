// What cured one host is tried first on the next.
#include <gtest/gtest.h>

#include <fstream>

#include "orchestrator/journal/remedy_memory.hpp"
#include "tests/unit/engine/harness.hpp"

namespace millwright::testing {
namespace {

Remedy remedy(const std::string& id, Value set) {
  Remedy out;
  out.id = id;
  out.title = "try " + id;
  out.step_kind = "release";
  out.set = std::move(set);
  return out;
}

constexpr const char* serve = R"(
name: serve
hosts: all
inputs:
  version: {type: string}
steps:
  - id: server
    uses: release
    with: {path: "{dir}/release", version: "{{ inputs.version }}", fails_with: never}
  - id: smoke
    uses: smoke
    with: {path: "{dir}/release"}
    on_failure: [{do: remedy, attempts: 3}]
)";

class LearnedRemedy : public ::testing::Test {
 protected:
  LearnedRemedy() : path_(bench_.folder.path() + "/state/remedies.json"), memory_(path_) {
    bench_.remembered = &memory_;
    bench_.inputs = {{"version", "bad"}};
    bench_.remedies.add("bad", remedy("useless", {{"fails_with", "nothing"}}));
    bench_.remedies.add("bad", remedy("newer", {{"version", "good 3"}}));
  }
  // Titles of the remedies that were tried on this host.
  std::vector<std::string> tried_on(const std::string& host) {
    EXPECT_TRUE(bench_.apply(serve, {host})) << render(*bench_.error);
    std::vector<std::string> titles;
    for (const Event& event : bench_.events(EventType::remedy)) titles.push_back(event.data.at("title"));
    return titles;
  }

  Bench bench_;
  std::string path_;
  RemedyMemory memory_;
};

using Titles = std::vector<std::string>;

TEST_F(LearnedRemedy, WhatCuredTheFirstHostIsTriedFirstOnTheSecond) {
  ASSERT_EQ(tried_on("h1"), (Titles{"try useless", "try newer"})) << bench_.last.sentence;
  EXPECT_FALSE(bench_.events(EventType::remedy)[0].data.contains("worked_on"));
  ASSERT_EQ(tried_on("h2"), (Titles{"try newer (worked on h1 before)"}));
  EXPECT_EQ(bench_.events(EventType::remedy)[0].data.at("worked_on"), "h1");
  EXPECT_EQ(bench_.last.exit, ExitCode::done);
  EXPECT_EQ(bench_.last.cured_by, "try newer");
  // Only what cured is kept, and the last host that it cured.
  const auto rows = memory_.worked("bad", "").value();
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].remedy, "newer");
  EXPECT_EQ(rows[0].host, "h2");
}

TEST_F(LearnedRemedy, WithoutAMemoryTheListIsGoneThroughAgain) {
  bench_.remembered = nullptr;
  EXPECT_EQ(tried_on("h1"), (Titles{"try useless", "try newer"}));
  EXPECT_EQ(tried_on("h2"), (Titles{"try useless", "try newer"}));
}

TEST_F(LearnedRemedy, ACureOfAnotherVersionOrFaultIsNotTakenForOne) {
  WorkedRemedy other{"bad", "", "another version", "", "newer", {{"version", "good 3"}}, "h9", "2026-12-01T00:00:00Z"};
  ASSERT_TRUE(memory_.remember({other}));
  other.symptom_class = "worse";
  other.version = "bad";
  ASSERT_TRUE(memory_.remember({other}));
  EXPECT_EQ(tried_on("h1"), (Titles{"try useless", "try newer"}));
}

TEST_F(LearnedRemedy, WhatWorkedThereAndDoesNotHereLeavesTheRest) {
  const WorkedRemedy there{"bad", "", "bad", "", "useless", {{"fails_with", "nothing"}}, "h9", "2026-12-01T00:00:00Z"};
  ASSERT_TRUE(memory_.remember({there}));
  EXPECT_EQ(tried_on("h1"), (Titles{"try useless (worked on h9 before)", "try newer"}));
  EXPECT_EQ(bench_.last.exit, ExitCode::done);
}

TEST_F(LearnedRemedy, EachChangeOfACureIsKeptWithTheFaultThatItWasFor) {
  bench_.remedies.add("halfway", remedy("rest", {{"version", "good 4"}}));
  bench_.remedies.add("odd", remedy("further", {{"version", "halfway"}}));
  bench_.inputs = {{"version", "odd"}};
  EXPECT_EQ(tried_on("h1"), (Titles{"try further", "try rest"}));
  ASSERT_EQ(memory_.worked("odd", "").value().size(), 1u);
  EXPECT_EQ(memory_.worked("odd", "").value()[0].remedy, "further");
  ASSERT_EQ(memory_.worked("halfway", "").value().size(), 1u);
  EXPECT_EQ(memory_.worked("halfway", "").value()[0].version, "halfway");
}

TEST_F(LearnedRemedy, NothingIsLearnedFromAFailure) {
  bench_.inputs = {{"version", "odd"}};
  bench_.remedies.add("odd", remedy("further", {{"version", "halfway"}}));
  tried_on("h1");
  EXPECT_EQ(bench_.last.exit, ExitCode::failed);
  EXPECT_TRUE(memory_.worked("odd", "").value().empty());
}

TEST_F(LearnedRemedy, ADamagedMemoryIsSaidAndStopsNothing) {
  ASSERT_TRUE(memory_.remember({{"bad", "", "bad", "", "newer", {{"version", "good 3"}}, "h9", ""}}));
  std::ofstream(path_) << "{";
  EXPECT_EQ(tried_on("h1"), (Titles{"try useless", "try newer"}));
  EXPECT_EQ(bench_.last.exit, ExitCode::done);
  const std::vector<Event> warnings = bench_.events(EventType::warning);
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].data.at("text").get<std::string>().find("is damaged: it is no JSON"), std::string::npos);
  EXPECT_EQ(memory_.worked("bad", "").value().size(), 1u) << "the cure is kept in a new file";
}

}  // namespace
}  // namespace millwright::testing
