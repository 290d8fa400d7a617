// Several hosts: side by side, in batches, out of reach, waiting for each other.
#include <gtest/gtest.h>

#include <algorithm>

#include "orchestrator/engine/play.hpp"
#include "tests/unit/engine/harness.hpp"

namespace millwright::testing {
namespace {

using Lines = std::vector<std::string>;

constexpr const char* one_note =
    "name: x\nhosts: all\nsteps:\n  - {id: a, uses: note, with: {path: \"{dir}/a\", text: one}}\n";

TEST(Hosts, OneOutOfReachDoesNotStopTheOthers) {
  Bench bench;
  bench.lab.refuse("h2");
  ASSERT_TRUE(bench.apply(one_note, {"h1", "h2", "h3"}));
  EXPECT_EQ(bench.last.exit, ExitCode::unreachable);
  EXPECT_EQ(read_file(bench.dir("h1") + "/a"), "one");
  EXPECT_EQ(read_file(bench.dir("h3") + "/a"), "one");
  Lines states;
  for (const HostSummary& host : bench.last.hosts) states.push_back(host.host + " " + host.state);
  EXPECT_EQ(states, (Lines{"h1 changed", "h2 unreachable", "h3 changed"}));
  EXPECT_EQ(bench.events(EventType::host_unreachable).size(), 1u);
}

TEST(Hosts, AFailureOnOneLeavesTheOthersAlone) {
  Bench bench;
  write_file(bench.dir("h2") + "/a", "hands off");
  ASSERT_TRUE(bench.apply(one_note, {"h1", "h2", "h3"}));
  EXPECT_EQ(bench.last.exit, ExitCode::failed);
  EXPECT_EQ(read_file(bench.dir("h3") + "/a"), "one");
}

TEST(Hosts, AStepCanWaitForAllHosts) {
  for (const int forks : {1, 8}) {
    Bench bench;
    bench.options.forks = forks;
    ASSERT_TRUE(bench.apply(R"(
name: barrier
hosts: all
steps:
  - {id: a, uses: note, with: {path: "{dir}/a", text: one}}
  - {id: b, uses: note, needs: [{step: a, on: all}], with: {path: "{dir}/b", text: two}}
)",
                            {"h1", "h2", "h3", "h4"}))
        << render(*bench.error);
    EXPECT_EQ(bench.last.exit, ExitCode::done);
    const Lines results = bench.results();
    ASSERT_EQ(results.size(), 8u);
    for (std::size_t i = 0; i < 4; ++i) EXPECT_NE(results[i].find(" a changed"), std::string::npos) << results[i];
  }
}

TEST(Hosts, WhatWaitsForAFailedHostIsCancelledAndAnUnreachableOneIsLeftOut) {
  const char* book = R"(
name: barrier
hosts: all
steps:
  - {id: a, uses: note, with: {path: "{dir}/a", text: one}}
  - {id: b, uses: note, needs: [{step: a, on: all}], with: {path: "{dir}/b", text: two}}
)";
  {
    Bench bench;
    bench.lab.refuse("h2");
    ASSERT_TRUE(bench.apply(book, {"h1", "h2"}));
    EXPECT_EQ(read_file(bench.dir("h1") + "/b"), "two");
  }
  Bench bench;
  write_file(bench.dir("h2") + "/a", "hands off");
  ASSERT_TRUE(bench.apply(book, {"h1", "h2"}));
  EXPECT_EQ(read_file(bench.dir("h1") + "/b"), "");
  EXPECT_EQ(bench.last.exit, ExitCode::failed);
}

TEST(Hosts, AllThatCouldNotBeReachedAreNamed) {
  Bench bench;
  std::vector<std::string> names = {"good"};
  for (int i = 1; i <= 7; ++i) {
    names.push_back("h" + std::to_string(i));
    bench.lab.refuse(names.back());
  }
  ASSERT_TRUE(bench.apply(one_note, {names.begin(), names.begin() + 3}));
  EXPECT_EQ(bench.last.sentence, "h1, h2 could not be reached: h1: no route to h1");
  ASSERT_TRUE(bench.apply(one_note, {"good", "h3"}));
  EXPECT_EQ(bench.last.sentence, "h3 could not be reached: no route to h3");
  ASSERT_TRUE(bench.apply(one_note, names));
  EXPECT_EQ(bench.last.sentence, "h1, h2, h3, h4, h5 and 2 more could not be reached: h1: no route to h1");
  write_file(bench.dir("bad") + "/a", "hands off");
  ASSERT_TRUE(bench.apply(one_note, {"bad", "h1", "h2"}));
  EXPECT_EQ(bench.last.exit, ExitCode::failed);
  EXPECT_NE(bench.last.sentence.find("; not reached: h1, h2"), std::string::npos) << bench.last.sentence;
}

TEST(Hosts, AFailedCanaryStopsTheRest) {
  Bench bench;
  write_file(bench.dir("h1") + "/a", "hands off");
  ASSERT_TRUE(bench.apply(std::string("strategy: {canary: 1}\n") + (one_note + 0), {"h1", "h2", "h3"}))
      << render(*bench.error);
  EXPECT_EQ(read_file(bench.dir("h2") + "/a"), "");
  EXPECT_EQ(bench.last.hosts[2].state, "cancelled");
  EXPECT_EQ(bench.last.exit, ExitCode::failed);
}

TEST(Hosts, BatchesAreCanaryThenPortions) {
  std::vector<PlayHost> hosts(10);
  StrategyDecl strategy;
  strategy.canary = 1;
  strategy.batch = {Amount{25, true}};
  std::vector<std::size_t> sizes;
  for (const auto& batch : batches_of(hosts, strategy, "r")) sizes.push_back(batch.size());
  EXPECT_EQ(sizes, (std::vector<std::size_t>{1, 3, 3, 3}));
  EXPECT_EQ(batches_of(hosts, StrategyDecl(), "r").size(), 1u);
  EXPECT_TRUE(batches_of({}, strategy, "r").empty());
}

TEST(Hosts, ALineThatBreaksUnderAnActionIsFoundAgainAndItsEndIsRead) {
  Bench bench;
  Faults faults;
  // Commands: the facts, the question, then the action; its answer never arrives.
  faults.drop_at_command = 3;
  bench.lab.break_line("h1", faults);
  ASSERT_TRUE(bench.apply(one_note));
  EXPECT_EQ(bench.results(), (Lines{"h1 a changed"})) << bench.last.sentence;
  EXPECT_EQ(read_file(bench.dir("h1") + "/a"), "one");
}

TEST(Hosts, ALineThatStaysBrokenMakesTheHostUnreachableAndKeepsTheActionPending) {
  Bench bench;
  Faults faults;
  faults.drop_at_command = 3;
  faults.reconnect = make_error(ErrorKind::timeout, "still gone");
  bench.lab.break_line("h1", faults);
  ASSERT_TRUE(bench.apply(one_note, {"h1", "h2"}));
  EXPECT_EQ(bench.last.exit, ExitCode::unreachable) << bench.last.sentence;
  const std::vector<UndoRecord> undos = bench.memory.undos(bench.last.run).value();
  EXPECT_EQ(
      std::count_if(undos.begin(), undos.end(), [](const UndoRecord& u) { return u.state == UndoState::pending; }), 1);
  // Later the line is back: resume reads how the action ended and goes on.
  bench.lab.break_line("h1", Faults());
  ASSERT_TRUE(bench.resume(bench.last.run)) << render(*bench.error);
  EXPECT_EQ(bench.last.exit, ExitCode::done) << bench.last.sentence;
  const std::vector<UndoRecord> later = bench.memory.undos(bench.last.run).value();
  for (const UndoRecord& undo : later) EXPECT_NE(undo.state, UndoState::pending);
}

}  // namespace
}  // namespace millwright::testing
