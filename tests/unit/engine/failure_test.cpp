// Retry, remedies, rollback: what follows a failure.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <thread>

#include "orchestrator/base/text.hpp"
#include "orchestrator/engine/action_script.hpp"
#include "tests/unit/engine/harness.hpp"

namespace millwright::testing {
namespace {

using Lines = std::vector<std::string>;

Remedy remedy(const std::string& id, const std::string& kind, Value set, bool degrades = false) {
  Remedy out;
  out.id = id;
  out.title = "try " + id;
  out.step_kind = kind;
  out.set = std::move(set);
  out.degrades = degrades;
  return out;
}

constexpr const char* serve = R"(
name: serve
hosts: all
inputs:
  version: {type: string, default: "good 2"}
  fails_with: {type: string, default: never}
steps:
  - {id: conf, uses: note, with: {path: "{dir}/conf", text: x}}
  - id: server
    uses: release
    with: {path: "{dir}/release", version: "{{ inputs.version }}", fails_with: "{{ inputs.fails_with }}"}
  - id: smoke
    uses: smoke
    with: {path: "{dir}/release"}
    on_failure:
      - {do: remedy, attempts: 3}
      - {do: rollback}
)";

Value given(const std::string& version, const std::string& fails_with = "never") {
  return {{"version", version}, {"fails_with", fails_with}};
}

Lines remaining_and_state(const Bench& bench) {
  Lines out = bench.last.remaining;
  out.push_back(bench.last.hosts.at(0).state);
  return out;
}

TEST(Failure, ARetriedStepMaySucceedLater) {
  Bench bench;
  int tries = 0;
  bench.lab.before_script([&](const std::string&, const std::string& script) {
    if (script.rfind("cat ", 0) == 0 && ++tries == 3) write_file(bench.dir("h1") + "/a", "");
  });
  write_file(bench.dir("h1") + "/a", "hands off");
  ASSERT_TRUE(
      bench.apply("name: x\nhosts: all\nsteps:\n  - {id: a, uses: note, retry: {times: 3, delay: 10ms, backoff: 2}, "
                  "with: {path: \"{dir}/a\", text: one}}\n"))
      << render(*bench.error);
  EXPECT_EQ(bench.results(), (Lines{"h1 a changed"}));
  const std::vector<Event> retries = bench.events(EventType::retry);
  ASSERT_EQ(retries.size(), 2u);
  EXPECT_EQ(retries[0].data["delay_ms"], 10);
  EXPECT_EQ(retries[1].data["delay_ms"], 20);
}

TEST(Failure, AnIgnoredFailureLetsTheRestGoOn) {
  Bench bench;
  ASSERT_TRUE(bench.apply(
      "name: x\nhosts: all\nsteps:\n  - {id: a, uses: break, ignore_failure: true, with: {path: \"{dir}/x\"}}\n"
      "  - {id: b, uses: note, with: {path: \"{dir}/b\", text: \"{{ steps.a.state }}\"}}\n"))
      << render(*bench.error);
  EXPECT_EQ(bench.results(), (Lines{"h1 a failed", "h1 b changed"}));
  EXPECT_EQ(read_file(bench.dir("h1") + "/b"), "failed");
  EXPECT_EQ(bench.last.sentence, "done; 1 failure was ignored");
  EXPECT_EQ(bench.last.hosts.at(0).ignored, 1);
  EXPECT_EQ(bench.events(EventType::step_finished).at(0).data["ignored"], true);
  EXPECT_FALSE(bench.events(EventType::step_finished).at(1).data.contains("ignored"));
  const Value counts = bench.events(EventType::run_finished).at(0).data["counts"];
  EXPECT_EQ(counts["ignored"], 1);
  EXPECT_EQ(counts["failed"], 0);
  EXPECT_EQ(bench.last.exit, ExitCode::done);
}

TEST(Failure, ARemedyCuresAndIsNamed) {
  Bench bench;
  bench.remedies.add("empty_answers", remedy("newer", "release", {{"version", "good 3"}}));
  bench.inputs = given("empty_answers");
  ASSERT_TRUE(bench.apply(serve)) << render(*bench.error);
  EXPECT_EQ(bench.results(),
            (Lines{"h1 conf changed", "h1 server changed", "h1 smoke failed", "h1 server changed", "h1 smoke ok"}));
  EXPECT_EQ(bench.last.exit, ExitCode::done);
  EXPECT_EQ(bench.last.cured_by, "try newer");
  EXPECT_EQ(read_file(bench.dir("h1") + "/release"), "good 3");
  ASSERT_EQ(bench.events(EventType::remedy_result).size(), 1u);
  EXPECT_EQ(bench.events(EventType::remedy_result)[0].data["cured"], true);
  EXPECT_EQ(bench.events(EventType::run_finished)[0].data["endpoint"], "http://127.0.0.1:1/good 3");
}

TEST(Failure, EvidenceIsKeptBeforeTheFirstRemedy) {
  Bench bench;
  bench.remedies.add("empty_answers", remedy("newer", "release", {{"version", "good 3"}}));
  bench.inputs = given("empty_answers");
  ASSERT_TRUE(bench.apply(serve));
  std::size_t evidence = 0, first_remedy = 0, at = 0;
  for (const Event& event : bench.sink->all()) {
    ++at;
    if (event.type == EventType::evidence_kept && event.data["name"] == "failure.json") evidence = at;
    if (event.type == EventType::remedy && first_remedy == 0) first_remedy = at;
  }
  EXPECT_GT(evidence, 0u);
  EXPECT_LT(evidence, first_remedy);
}

TEST(Failure, AStepUnderTheHandlersOfTheTestIsRemediedToo) {
  Bench bench;
  bench.remedies.add("does_not_start", remedy("other", "release", {{"version", "good 3"}}));
  bench.inputs = given("good 2", "good 2");
  ASSERT_TRUE(bench.apply(serve)) << render(*bench.error);
  EXPECT_EQ(bench.results(), (Lines{"h1 conf changed", "h1 server failed", "h1 server changed", "h1 smoke ok"}));
  EXPECT_EQ(bench.last.exit, ExitCode::done);
}

TEST(Failure, RemediesEndAfterTheirAttemptsAndTheHostIsRolledBack) {
  Bench bench;
  for (const char* id : {"one", "two", "three", "four"}) {
    bench.remedies.add("bad", remedy(id, "release", {{"version", "bad"}}));
  }
  bench.inputs = given("bad");
  ASSERT_TRUE(bench.apply(serve));
  EXPECT_EQ(bench.events(EventType::remedy).size(), 3u);
  EXPECT_EQ(bench.last.exit, ExitCode::rolled_back) << bench.last.sentence;
  EXPECT_EQ(tree(bench.dir("h1")), "");
  EXPECT_EQ(bench.last.cured_by, "");
}

TEST(Failure, AChangeThatDidNotHelpIsTakenAwayAndOneThatGotFurtherStays) {
  Bench bench;
  bench.remedies.add("bad", remedy("useless", "release", {{"fails_with", "nothing"}}));
  bench.remedies.add("bad", remedy("further", "release", {{"version", "worse"}}));
  bench.remedies.add("worse", remedy("last", "release", {{"fails_with", "else"}}));
  bench.inputs = given("bad");
  ASSERT_TRUE(bench.apply(serve));
  const std::vector<StepRecord> steps = bench.memory.steps(bench.last.run).value();
  const auto server = std::find_if(steps.begin(), steps.end(), [](const StepRecord& s) { return s.step == "server"; });
  ASSERT_NE(server, steps.end());
  EXPECT_EQ(server->inputs["version"], "worse");
  EXPECT_EQ(server->inputs["fails_with"], "else") << "the third was tried on top of the second";
}

TEST(Failure, ADegradingCureIsReportedAsDegraded) {
  Bench bench;
  bench.remedies.add("bad", remedy("less", "release", {{"version", "good but less"}}, true));
  bench.inputs = given("bad");
  ASSERT_TRUE(bench.apply(serve));
  EXPECT_EQ(bench.last.exit, ExitCode::done);
  EXPECT_EQ(bench.last.cured_by, "try less");
}

TEST(Failure, ThePreviousReleaseIsTestedAfterRollback) {
  Bench bench;
  bench.inputs = given("good 1");
  ASSERT_TRUE(bench.apply(serve));
  bench.inputs = given("bad");
  ASSERT_TRUE(bench.apply(serve));
  EXPECT_EQ(bench.last.exit, ExitCode::rolled_back) << bench.last.sentence;
  EXPECT_EQ(read_file(bench.dir("h1") + "/release"), "good 1");
  const std::vector<Event> verified = bench.events(EventType::verified_after_rollback);
  ASSERT_EQ(verified.size(), 1u);
  EXPECT_EQ(verified[0].data["what"], "good 1");
  EXPECT_EQ(verified[0].data["state"], "pass");
}

TEST(Failure, APreviousReleaseIsAlsoTestedWhenTheNewOneNeverStarted) {
  Bench bench;
  bench.inputs = given("good 1");
  ASSERT_TRUE(bench.apply(serve));
  bench.inputs = given("good 2", "good 2");
  ASSERT_TRUE(bench.apply(serve));
  EXPECT_EQ(bench.last.exit, ExitCode::rolled_back) << bench.last.sentence;
  EXPECT_EQ(bench.events(EventType::verified_after_rollback).size(), 1u);
}

TEST(Failure, APreviousReleaseThatNoLongerAnswersIsNotARollback) {
  Bench bench;
  write_file(bench.dir("h1") + "/release", "was broken before");
  bench.inputs = given("bad");
  ASSERT_TRUE(bench.apply(serve));
  EXPECT_EQ(bench.last.exit, ExitCode::rollback_incomplete);
  ASSERT_EQ(bench.last.remaining.size(), 1u);
  EXPECT_NE(bench.last.remaining[0].find("does not pass its test"), std::string::npos);
}

TEST(Failure, WithoutRollbackFailuresStayAsTheyAre) {
  Bench bench;
  bench.options.no_rollback = true;
  bench.inputs = given("bad");
  ASSERT_TRUE(bench.apply(serve));
  EXPECT_EQ(bench.last.exit, ExitCode::failed);
  EXPECT_EQ(read_file(bench.dir("h1") + "/release"), "bad");
}

TEST(Failure, InconclusiveIsACodeOfItsOwn) {
  Bench bench;
  bench.inputs = given("unclear");
  ASSERT_TRUE(bench.apply(serve));
  EXPECT_EQ(bench.last.exit, ExitCode::inconclusive);
}

constexpr const char* three_then_fail = R"(
name: roll
hosts: all
steps:
  - {id: a, uses: note, with: {path: "{dir}/f", text: one}}
  - {id: b, uses: note, with: {path: "{dir}/f", text: two}}
  - {id: c, uses: break, with: {path: "{dir}/c"}, on_failure: [{do: rollback}]}
)";

TEST(Rollback, GoesBackwardsThroughEverythingThatRan) {
  Bench bench;
  write_file(bench.dir("h1") + "/f", "zero");
  ASSERT_TRUE(bench.apply(three_then_fail)) << render(*bench.error);
  EXPECT_EQ(bench.last.exit, ExitCode::rolled_back) << bench.last.sentence;
  EXPECT_EQ(tree(bench.dir("h1")), "f: zero");
  Lines titles;
  for (const Event& event : bench.events(EventType::undo_started)) titles.push_back(event.step);
  EXPECT_EQ(titles, (Lines{"c", "b", "a"}));
}

TEST(Rollback, OnlyTheFailedHostGoesBack) {
  Bench bench;
  write_file(bench.dir("h2") + "/b", "hands off");
  ASSERT_TRUE(
      bench.apply("name: x\nhosts: all\nsteps:\n  - {id: a, uses: note, with: {path: \"{dir}/a\", text: x}}\n"
                  "  - {id: b, uses: note, with: {path: \"{dir}/b\", text: x}, on_failure: [{do: rollback}]}\n",
                  {"h1", "h2"}));
  EXPECT_EQ(bench.last.exit, ExitCode::rolled_back);
  EXPECT_EQ(tree(bench.dir("h1")), "a: x\nb: x");
  EXPECT_EQ(tree(bench.dir("h2")), "b: hands off");
}

TEST(Rollback, WhatSomebodyChangedSinceIsRefusedAndListed) {
  Bench bench;
  ASSERT_TRUE(
      bench.apply("name: x\nhosts: all\nsteps:\n  - {id: a, uses: note, with: {path: \"{dir}/a\", text: x}}\n"
                  "  - {id: b, uses: note, with: {path: \"{dir}/b\", text: x}}\n"));
  write_file(bench.dir("h1") + "/a", "mine");
  ASSERT_TRUE(bench.rollback("last")) << render(*bench.error);
  EXPECT_EQ(bench.last.exit, ExitCode::rollback_incomplete);
  ASSERT_EQ(bench.last.remaining.size(), 1u) << remaining_and_state(bench).back();
  EXPECT_NE(bench.last.remaining[0].find("was changed since"), std::string::npos) << bench.last.remaining[0];
  EXPECT_EQ(tree(bench.dir("h1")), "a: mine");
  EXPECT_EQ(bench.memory.undos(bench.last.run).value()[0].state, UndoState::refused);
}

TEST(Rollback, WhatCannotBeTakenBackIsListedByItsTitle) {
  Bench bench;
  ASSERT_TRUE(
      bench.apply("name: x\nhosts: all\nsteps:\n  - {id: a, uses: say, with: {to: \"{dir}/log\", text: hello}}\n"));
  ASSERT_TRUE(bench.rollback("last"));
  EXPECT_EQ(bench.last.exit, ExitCode::rollback_incomplete);
  ASSERT_EQ(bench.last.remaining.size(), 1u);
  EXPECT_EQ(bench.last.remaining[0], "h1: say hello (cannot be taken back)");
}

TEST(Rollback, TwiceIsNothingMore) {
  Bench bench;
  ASSERT_TRUE(
      bench.apply("name: x\nhosts: all\nsteps:\n  - {id: a, uses: note, with: {path: \"{dir}/a\", text: x}}\n"));
  ASSERT_TRUE(bench.rollback("last"));
  EXPECT_EQ(bench.last.exit, ExitCode::rolled_back);
  write_file(bench.dir("h1") + "/a", "later");
  ASSERT_TRUE(bench.rollback("last"));
  EXPECT_EQ(read_file(bench.dir("h1") + "/a"), "later");
}

TEST(Rollback, ALineThatBreaksAnywhereInItIsFoundAgain) {
  int broke = 0;
  for (const bool after : {false, true}) {
    for (int command = 1; command < 40; ++command) {
      Bench bench;
      write_file(bench.dir("h1") + "/f", "zero");
      ASSERT_TRUE(
          bench.apply("name: x\nhosts: all\nsteps:\n  - {id: a, uses: note, with: {path: \"{dir}/a\", text: x}}\n"
                      "  - {id: b, uses: note, with: {path: \"{dir}/f\", text: x}}\n"));
      Faults faults;
      (after ? faults.drop_at_command : faults.drop_before_command) = command;
      bench.lab.break_line("h1", faults);
      bench.lab.clear_traffic();
      ASSERT_TRUE(bench.rollback("last")) << render(*bench.error);
      EXPECT_EQ(tree(bench.dir("h1")), "f: zero") << "broken at command " << command;
      EXPECT_EQ(bench.last.exit, ExitCode::rolled_back) << command << ": " << bench.last.sentence;
      const std::size_t sent = bench.lab.traffic("h1").scripts.size();
      if (static_cast<std::size_t>(command) > sent) break;
      ++broke;
    }
  }
  EXPECT_GT(broke, 8);
}

// The undo has begun when its line breaks: the next one waits for its end and finds nothing left to do.
TEST(Rollback, AnUndoWhoseLineBrokeIsLetFinish) {
  Bench bench;
  ASSERT_TRUE(
      bench.apply("name: x\nhosts: all\nsteps:\n  - {id: a, uses: note, with: {path: \"{dir}/a\", text: x}}\n"));
  const std::string run = bench.last.run;
  const UndoRecord undo = bench.memory.undos(run).value().at(0);
  const std::string go = bench.dir("h1") + "-go";
  const std::string log = bench.dir("h1") + "-log";
  // Beside the rollback, as it is when only the line is gone.
  const std::string slow = compose_undo(undo.remote_dir,
                                        "echo begun >>'" + log + "'\nuntil [ -e '" + go + "' ]; do sleep 0.1; done\n" +
                                            undo.script + "\necho ended >>'" + log + "'\n",
                                        "somebody", Force::no);
  std::filesystem::remove(undo.remote_dir + "/undo.sh");
  std::thread first([&] {
    auto connection = bench.lab.connect(bench.host("h1").target);
    Command command;
    command.script = slow;
    EXPECT_TRUE(connection && (*connection)->run(command));
  });
  while (read_file(log) != "begun\n") std::this_thread::sleep_for(std::chrono::milliseconds(5));
  bench.lab.before_script([&](const std::string&, const std::string& script) {
    if (script.find("undo.sh") != std::string::npos) write_file(go, "");
  });
  ASSERT_TRUE(bench.rollback(run)) << render(*bench.error);
  first.join();
  EXPECT_EQ(bench.last.exit, ExitCode::rolled_back) << bench.last.sentence;
  EXPECT_EQ(read_file(log), "begun\nended\n") << "the undo ran twice";
  EXPECT_EQ(tree(bench.dir("h1")), "");
}

TEST(Rollback, AnUndoThatDidNothingIsNoticed) {
  Bench bench;
  ASSERT_TRUE(
      bench.apply("name: x\nhosts: all\nsteps:\n  - {id: a, uses: note, with: {path: \"{dir}/a\", text: x}}\n"));
  const std::string run = bench.last.run;
  const std::vector<UndoRecord> undos = bench.memory.undos(run).value();
  for (const UndoRecord& undo : undos) write_file(undo.remote_dir + "/undo.sh", "exit 0\n");
  ASSERT_TRUE(bench.rollback(run));
  EXPECT_EQ(bench.last.exit, ExitCode::rollback_incomplete);
  ASSERT_EQ(bench.last.remaining.size(), 1u);
  EXPECT_NE(bench.last.remaining[0].find("still as the run left it"), std::string::npos) << bench.last.remaining[0];
}

TEST(Rollback, TheContentsOfAContainerGoWithIt) {
  Bench bench;
  ASSERT_TRUE(bench.apply(R"(
name: boxed
hosts: all
steps:
  - {id: box, uses: box, with: {path: "{dir}/box"}}
  - {id: a, uses: note, in: box, with: {path: "{dir}/box/a", text: one}}
  - {id: b, uses: note, with: {path: "{dir}/b", text: hands}}
)"));
  write_file(bench.dir("h1") + "/box/a", "changed inside, so its undo refuses");
  ASSERT_TRUE(bench.rollback("last"));
  EXPECT_EQ(bench.last.exit, ExitCode::rolled_back) << bench.last.sentence;
  EXPECT_EQ(tree(bench.dir("h1")), "");
}

TEST(Rollback, FromTheNodeAloneWhenTheJournalIsLost) {
  Bench bench;
  write_file(bench.dir("h1") + "/f", "zero");
  ASSERT_TRUE(
      bench.apply("name: x\nhosts: all\nsteps:\n  - {id: a, uses: note, with: {path: \"{dir}/f\", text: one}}\n"
                  "  - {id: b, uses: note, with: {path: \"{dir}/f\", text: two}}\n"));
  const std::string run = bench.last.run;
  MemoryJournal another;
  bench.journal = &another;
  ASSERT_TRUE(bench.rollback_from_node(run)) << render(*bench.error);
  EXPECT_EQ(bench.last.exit, ExitCode::rolled_back) << bench.last.sentence;
  EXPECT_EQ(tree(bench.dir("h1")), "f: zero");
  EXPECT_EQ(std::filesystem::symlink_status(bench.options.node_state_dir + "/lock").type(),
            std::filesystem::file_type::not_found);
  ASSERT_FALSE(bench.rollback_from_node("nope"));
  EXPECT_NE(bench.error->message.find("knows no run nope"), std::string::npos);
}

// The container keeps its records in a folder of its own; only the host's pointer says where.
TEST(Rollback, FromTheNodeAloneTakesBackWhatWasDoneInContainersInOrder) {
  Bench bench;
  write_file(bench.dir("h1") + "/box/f", "zero");
  ASSERT_TRUE(bench.apply(R"(
name: boxed
hosts: all
steps:
  - {id: box, uses: box, with: {path: "{dir}/box"}}
  - {id: a, uses: note, in: box, with: {path: "{dir}/box/f", text: one}}
  - {id: b, uses: note, with: {path: "{dir}/box/f", text: two}}
  - {id: c, uses: note, in: box, with: {path: "{dir}/box/f", text: three}}
)")) << render(*bench.error);
  const std::string runs = bench.options.node_state_dir + "/runs/" + bench.last.run;
  const std::string inside = bench.folder.path() + "/inside/state/runs/" + bench.last.run;
  std::filesystem::create_directories(inside);
  const std::vector<UndoRecord> undos = bench.memory.undos(bench.last.run).value();
  for (const UndoRecord& undo : undos) {
    if (!undo.node.contains("container")) continue;
    std::filesystem::rename(undo.remote_dir, inside + undo.remote_dir.substr(runs.size()));
  }
  int pointers = 0;
  for (const auto& entry : std::filesystem::directory_iterator(runs + "/nodes")) {
    const std::string pointer = read_file(entry.path().string());
    ASSERT_NE(pointer.find(runs), std::string::npos) << pointer;
    write_file(entry.path().string(), replace_all(pointer, runs, inside));
    ++pointers;
  }
  EXPECT_EQ(pointers, 1);
  MemoryJournal another;
  bench.journal = &another;
  ASSERT_TRUE(bench.rollback_from_node(bench.last.run)) << render(*bench.error);
  EXPECT_EQ(bench.last.exit, ExitCode::rolled_back) << bench.last.sentence;
  Lines undone;
  for (const Event& event : bench.events(EventType::undo_finished)) {
    undone.push_back(event.step + " " + event.data["state"].get<std::string>());
  }
  EXPECT_EQ(undone, (Lines{"c undone", "b undone", "a undone"}));
  EXPECT_EQ(tree(bench.dir("h1")), "box/\nbox/f: zero");
}

TEST(Rollback, FromTheNodeAloneSaysSoWhenAContainerIsGone) {
  Bench bench;
  ASSERT_TRUE(bench.apply(R"(
name: boxed
hosts: all
steps:
  - {id: box, uses: box, with: {path: "{dir}/box"}}
  - {id: a, uses: note, in: box, with: {path: "{dir}/a", text: one}}
)"));
  std::filesystem::remove_all(bench.dir("h1") + "/box");
  // What box did is not on the node either, so nothing says that the container was to go.
  const std::string runs = bench.options.node_state_dir + "/runs/" + bench.last.run;
  const std::vector<UndoRecord> undos = bench.memory.undos(bench.last.run).value();
  for (const UndoRecord& undo : undos) {
    std::filesystem::remove_all(undo.remote_dir);
  }
  MemoryJournal another;
  bench.journal = &another;
  ASSERT_TRUE(bench.rollback_from_node(bench.last.run)) << render(*bench.error);
  EXPECT_EQ(bench.last.exit, ExitCode::rollback_incomplete);
  ASSERT_EQ(bench.last.remaining.size(), 1u);
  EXPECT_NE(bench.last.remaining[0].find("what was done in container"), std::string::npos) << bench.last.remaining[0];
}

TEST(Rollback, WhatReadsAFileIsServedAfterTheFileIsBack) {
  Bench bench;
  write_file(bench.dir("h1") + "/f", "zero");
  ASSERT_TRUE(bench.apply(R"(
name: after
hosts: all
steps:
  - {id: a, uses: note, with: {path: "{dir}/f", text: one}}
  - id: b
    uses: say
    with: {to: "{dir}/said", text: hi, undo: "rm {dir}/said; echo 'cat {dir}/f >>{dir}/seen' >\"$MW_SAVE/after.sh\""}
  - {id: c, uses: break, with: {path: "{dir}/c"}, on_failure: [{do: rollback}]}
)")) << render(*bench.error);
  EXPECT_EQ(bench.last.exit, ExitCode::rolled_back) << bench.last.sentence;
  EXPECT_EQ(tree(bench.dir("h1")), "f: zero\nseen: zero");
}

// The first did not come to its end: it was killed, or what it had to do last did not work.
TEST(Rollback, WhatAnEarlierRollbackLeftToDoIsDoneByTheNext) {
  Bench bench;
  write_file(bench.dir("h1") + "/f", "zero");
  ASSERT_TRUE(bench.apply(R"(
name: after
hosts: all
steps:
  - {id: a, uses: note, with: {path: "{dir}/f", text: one}}
  - id: b
    uses: say
    with: {to: "{dir}/said", text: hi, undo: "rm {dir}/said; echo 'rm {dir}/ready; cat {dir}/f >>{dir}/seen' >\"$MW_SAVE/after.sh\""}
)")) << render(*bench.error);
  const std::string run = bench.last.run;
  ASSERT_TRUE(bench.rollback(run)) << render(*bench.error);
  EXPECT_EQ(bench.last.exit, ExitCode::rollback_incomplete) << bench.last.sentence;
  EXPECT_EQ(tree(bench.dir("h1")), "f: zero");
  write_file(bench.dir("h1") + "/ready", "");
  ASSERT_TRUE(bench.rollback(run)) << render(*bench.error);
  EXPECT_EQ(bench.last.exit, ExitCode::rolled_back) << bench.last.sentence;
  EXPECT_EQ(tree(bench.dir("h1")), "f: zero\nseen: zero");
}

}  // namespace
}  // namespace millwright::testing
