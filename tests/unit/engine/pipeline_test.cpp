// Actions that travel together: what goes along, where it stops, what is left behind when something comes in between.
#include "orchestrator/engine/pipeline.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "orchestrator/base/text.hpp"
#include "orchestrator/engine/pipeline_script.hpp"
#include "tests/unit/engine/harness.hpp"

namespace millwright::testing {
namespace {

using Lines = std::vector<std::string>;

std::string note(const std::string& id, const std::string& text, const std::string& more = "",
                 const std::string& file = "") {
  return "  - {id: " + id + ", uses: note" + (more.empty() ? "" : ", " + more) + ", with: {path: \"{dir}/" +
         (file.empty() ? id : file) + "\", text: \"" + text + "\"}}\n";
}

std::string book_of(const std::string& steps) { return "name: x\nhosts: all\nsteps:\n" + steps; }

std::vector<UndoRecord> undos(Bench& bench) { return bench.memory.undos(bench.last.run).value(); }

bool is_action(const std::string& script) { return starts_with(script, "# millwright:"); }

// Scripts of actions that went over the line, by round trip.
std::vector<std::size_t> actions_by_trip(const std::vector<std::vector<std::string>>& trips) {
  std::vector<std::size_t> out;
  for (const auto& scripts : trips) {
    const auto actions = static_cast<std::size_t>(std::count_if(scripts.begin(), scripts.end(), is_action));
    if (actions > 0) out.push_back(actions);
  }
  return out;
}

TEST(Pipeline, EveryUndoIsOnRecordBeforeAnythingIsSent) {
  Bench bench;
  std::vector<std::size_t> recorded;
  bench.lab.before_script([&](const std::string&, const std::string& script) {
    if (!is_action(script)) return;
    recorded.push_back(bench.memory.undos(bench.memory.find_run("last").value()->id).value().size());
  });
  ASSERT_TRUE(bench.apply(book_of(note("a", "1") + note("b", "2") + note("c", "3")))) << render(*bench.error);
  EXPECT_EQ(recorded, (std::vector<std::size_t>{3, 3, 3}));
  EXPECT_EQ(actions_by_trip(bench.lab.traffic("h1").trips), (std::vector<std::size_t>{3}));
  for (const UndoRecord& undo : undos(bench)) {
    EXPECT_EQ(undo.state, UndoState::done);
    EXPECT_TRUE(std::filesystem::exists(undo.remote_dir + "/undo.sh"));
    EXPECT_EQ(undo.completed, undo.seq) << "in the order in which they were done";
  }
  for (const auto& entry :
       std::filesystem::directory_iterator(bench.options.node_state_dir + "/runs/" + bench.last.run)) {
    EXPECT_EQ(entry.path().filename().string().find("pipe-"), std::string::npos) << "the gate is taken away";
  }
}

TEST(Pipeline, TurnedOffEachActionIsWaitedFor) {
  Bench bench;
  bench.options.pipelining = Pipelining::off;
  ASSERT_TRUE(bench.apply(book_of(note("a", "1") + note("b", "2") + note("c", "3")))) << render(*bench.error);
  EXPECT_EQ(actions_by_trip(bench.lab.traffic("h1").trips), (std::vector<std::size_t>{1, 1, 1}));
  EXPECT_EQ(bench.lab.traffic("h1").round_trips, 1 + 3 + 1);
}

TEST(Pipeline, WhatAnActionMakesStaleIsPlannedAgainAndNothingBehindItBegins) {
  Bench bench;
  const std::string book = book_of(note("a", "1", "", "x") + note("b", "2", "", "x") + note("c", "3"));
  ASSERT_TRUE(bench.apply(book)) << render(*bench.error);
  EXPECT_EQ(bench.results(), (Lines{"h1 a changed", "h1 b changed", "h1 c changed"}));
  EXPECT_EQ(tree(bench.dir("h1")), "c: 3\nx: 2");
  // Asked; all three, of which the second is stale; the second and third again; the lock.
  EXPECT_EQ(actions_by_trip(bench.lab.traffic("h1").trips), (std::vector<std::size_t>{3, 2}));
  EXPECT_EQ(bench.lab.traffic("h1").round_trips, 4);
  std::size_t undone = 0;
  for (const UndoRecord& undo : undos(bench)) {
    undone += undo.state == UndoState::undone ? 1 : 0;
  }
  EXPECT_EQ(undone, 2u) << "what did not run has nothing to take back";
  ASSERT_TRUE(bench.rollback("last")) << render(*bench.error);
  EXPECT_EQ(tree(bench.dir("h1")), "");
}

TEST(Pipeline, AStepThatIsAsWantedGoesAlongAsACheck) {
  Bench bench;
  write_file(bench.dir("h1") + "/b", "2");
  ASSERT_TRUE(bench.apply(book_of(note("a", "1") + note("b", "2") + note("c", "3")))) << render(*bench.error);
  EXPECT_EQ(bench.results(), (Lines{"h1 a changed", "h1 b ok", "h1 c changed"}));
  EXPECT_EQ(bench.lab.traffic("h1").round_trips, 3);
  // One that is no longer as wanted by the time it is its turn is changed all the same.
  ASSERT_TRUE(bench.apply(book_of(note("a", "4", "", "b") + note("b", "2") + note("c", "5")))) << render(*bench.error);
  EXPECT_EQ(bench.results(), (Lines{"h1 a changed", "h1 b changed", "h1 c changed"}));
  EXPECT_EQ(tree(bench.dir("h1")), "a: 1\nb: 2\nc: 5");
}

TEST(Pipeline, NothingBehindAFailureBegins) {
  Bench bench;
  ASSERT_TRUE(bench.apply(book_of(note("a", "1") + "  - {id: b, uses: break, with: {path: \"{dir}/b\"}}\n" +
                                  note("c", "3") + note("d", "4"))));
  EXPECT_EQ(bench.results(), (Lines{"h1 a changed", "h1 b failed", "h1 c cancelled", "h1 d cancelled"}));
  EXPECT_EQ(tree(bench.dir("h1")), "a: 1\nb: half\n");
  EXPECT_EQ(bench.last.exit, ExitCode::failed);
}

// What only the controller can judge is waited for: whatever follows must not begin before.
TEST(Pipeline, WhatCannotBeForeseenEndsIt) {
  Bench bench;
  ASSERT_TRUE(bench.apply(book_of(note("a", "1") + "  - {id: b, uses: stubborn}\n" + note("c", "3"))));
  EXPECT_EQ(bench.results(), (Lines{"h1 a changed", "h1 b failed", "h1 c cancelled"}));
  EXPECT_EQ(actions_by_trip(bench.lab.traffic("h1").trips), (std::vector<std::size_t>{2}));
  EXPECT_EQ(tree(bench.dir("h1")), "a: 1");
}

TEST(Pipeline, WhatReadsAnOutputWaitsForIt) {
  Bench bench;
  ASSERT_TRUE(bench.apply(book_of(note("a", "1") + note("b", "{{ steps.a.text }}") + note("c", "3"))))
      << render(*bench.error);
  EXPECT_EQ(tree(bench.dir("h1")), "a: 1\nb: 1\nc: 3");
  EXPECT_EQ(actions_by_trip(bench.lab.traffic("h1").trips), (std::vector<std::size_t>{1, 2}));
}

TEST(Pipeline, ItemsGoAlongAndOneThatFailsEndsTheStep) {
  Bench bench;
  write_file(bench.dir("h1") + "/bad", "hands off");
  ASSERT_TRUE(bench.apply(book_of(note("a", "x", "foreach: [p, q, r]", "{{ item }}") +
                                  note("b", "x", "foreach: [s, bad, t]", "{{ item }}") + note("c", "3"))));
  EXPECT_EQ(bench.results(), (Lines{"h1 a changed", "h1 b refused", "h1 c cancelled"}));
  EXPECT_EQ(tree(bench.dir("h1")), "bad: hands off\np: x\nq: x\nr: x\ns: x");
  EXPECT_EQ(actions_by_trip(bench.lab.traffic("h1").trips), (std::vector<std::size_t>{4}));
}

TEST(Pipeline, ABrokenLineIsFoundAgainAndNothingIsDoneTwiceOrLost) {
  const std::string book = book_of(
      "  - {id: a, uses: say, with: {to: \"{dir}/log\", text: one, undo: \":\"}}\n" + note("b", "2") +
      "  - {id: c, uses: say, with: {to: \"{dir}/log\", text: two, undo: \":\"}}\n" + note("d", "4") + note("e", "5"));
  for (const int command : {2, 3, 5, 6, 8, 11, 12, 16, 20}) {
    for (const bool after : {false, true}) {
      Bench bench;
      Faults faults;
      (after ? faults.drop_at_command : faults.drop_before_command) = command;
      bench.lab.break_line("h1", faults);
      ASSERT_TRUE(bench.apply(book)) << render(*bench.error);
      EXPECT_EQ(bench.last.exit, ExitCode::done) << command << ": " << bench.last.sentence;
      EXPECT_EQ(tree(bench.dir("h1")), "b: 2\nd: 4\ne: 5\nlog: one\ntwo\n")
          << command << (after ? " after" : " before");
      for (const UndoRecord& undo : undos(bench)) {
        EXPECT_NE(undo.state, UndoState::pending) << command << ": " << undo.title;
      }
    }
  }
}

TEST(Pipeline, InterruptedOnceFinishesWhatHasBegunAndNothingMore) {
  Bench bench;
  const std::string log = bench.dir("h1") + "/log";
  write_file(log, "");
  // The second action begins, and ends only when what is behind it has been stopped.
  const auto stopped = [&] {
    const std::filesystem::path runs = bench.options.node_state_dir + "/runs";
    const auto claimed = [](const auto& run) {
      return std::filesystem::exists(run.path() / "3-c/claim") && std::filesystem::exists(run.path() / "4-d/claim");
    };
    return std::any_of(std::filesystem::directory_iterator(runs), {}, claimed);
  };
  std::thread watch([&] {
    const auto pause = std::chrono::milliseconds(5);
    while (read_file(log).empty()) std::this_thread::sleep_for(pause);
    bench.interrupt = 1;
    while (!stopped()) std::this_thread::sleep_for(pause);
    std::ofstream(log, std::ios::app) << "begin go\n";
  });
  ASSERT_TRUE(
      bench.apply(book_of(note("a", "1") + "  - {id: b, uses: span, with: {log: \"{dir}/log\", name: b, meets: go}}\n" +
                          note("c", "3") + note("d", "4"))))
      << render(*bench.error);
  watch.join();
  EXPECT_EQ(bench.last.exit, ExitCode::interrupted) << bench.last.sentence;
  EXPECT_EQ(bench.results(), (Lines{"h1 a changed", "h1 b changed", "h1 c cancelled", "h1 d cancelled"}));
  for (const UndoRecord& undo : undos(bench)) {
    EXPECT_EQ(undo.state, undo.seq <= 2 ? UndoState::done : UndoState::undone) << undo.step;
  }
}

TEST(Pipeline, StepsBesideItRunAtTheSameTime) {
  Bench bench;
  ASSERT_TRUE(bench.apply(R"(
name: forks
hosts: all
steps:
  - {id: top, uses: note, with: {path: "{dir}/top", text: x}}
  - {id: left, uses: span, needs: [top], with: {log: "{dir}/log", name: left, meets: right}}
  - {id: left2, uses: note, needs: [left], with: {path: "{dir}/left2", text: x}}
  - {id: right, uses: span, needs: [top], with: {log: "{dir}/log", name: right, meets: left}}
  - {id: alone, uses: span, needs: [right], with: {log: "{dir}/log", name: alone, destructive: true}}
  - {id: end, uses: note, needs: [left2, alone], with: {path: "{dir}/end", text: x}}
)")) << render(*bench.error);
  EXPECT_EQ(bench.last.hosts[0].changed, 6) << bench.last.sentence;
  ASSERT_TRUE(bench.rollback("last")) << render(*bench.error);
  EXPECT_EQ(tree(bench.dir("h1")), "log: ");
}

TEST(Pipeline, WhatIsSaidOfAStepIsSaidInItsOwnTurn) {
  Bench bench;
  ASSERT_TRUE(
      bench.apply(book_of("  - {id: a, uses: say, with: {to: \"{dir}/log\", text: one}}\n"
                          "  - {id: b, uses: say, with: {to: \"{dir}/log\", text: two}}\n")))
      << render(*bench.error);
  Lines story;
  for (const Event& event : bench.sink->all()) {
    if (!event.step.empty()) story.push_back(event.step + " " + std::string(to_string(event.type)));
  }
  Lines wanted;
  for (const char* step : {"a", "b"}) {
    for (const char* what :
         {"step_started", "step_planned", "action_started", "step_output", "action_finished", "step_finished"}) {
      wanted.push_back(std::string(step) + " " + what);
    }
  }
  EXPECT_EQ(story, wanted);
}

TEST(Pipeline, ALockThatSomebodyElseHoldsIsWaitedForAsEver) {
  Bench bench;
  std::filesystem::create_directories(bench.options.node_state_dir);
  const std::string lock = bench.options.node_state_dir + "/lock";
  std::filesystem::create_symlink("r9|ann@desk pid 7|desk|boot|ns|7|1|2026-11-30T10:00:00Z|moving", lock);
  bench.options.lock_wait = std::chrono::minutes(1);
  int sent = 0;
  bench.lab.before_script([&](const std::string&, const std::string& script) {
    // Let go when it has been found held twice: by the pipeline, and by the action that is sent alone then.
    if (is_action(script) && ++sent == 4) std::filesystem::remove(lock);
  });
  ASSERT_TRUE(bench.apply(book_of(note("a", "1") + note("b", "2")))) << render(*bench.error);
  EXPECT_EQ(bench.last.exit, ExitCode::done) << bench.last.sentence;
  EXPECT_EQ(tree(bench.dir("h1")), "a: 1\nb: 2");
}

TEST(PipelineScript, TheGateOpensOnlyForTheNextAndAnExpectationIsExact) {
  TemporaryFolder folder;
  const std::string gate = folder.path() + "/gate";
  const std::string action = folder.path() + "/1-a";
  std::filesystem::create_directories(action);
  const auto sh = [&](const std::string& script) {
    write_file(folder.path() + "/script", script);
    const int status = std::system(("/bin/sh " + folder.path() + "/script >" + folder.path() + "/out 2>&1").c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  };
  const auto out = [&] { return read_file(folder.path() + "/out"); };
  EXPECT_EQ(sh(gate_text({gate, 1})), gate_closed);
  write_file(action + "/outcome", "done 0\n");
  const Expectation expected{"text", {"a*", "'\n"}};
  const auto judge = [&](const std::string& question) {
    EXPECT_EQ(sh(after_script(question, action, &expected)), 0);
    const std::string said = out();
    EXPECT_EQ(sh(judge_script({gate, 0}, action, 1)), 0);
    const bool passed = judged_passed(out());
    EXPECT_EQ(parse_mark(out()).kind, ActionMark::Kind::done);
    EXPECT_EQ(sh(gate_text({gate, 1})), passed ? 0 : gate_closed);
    return (passed ? "passed " : "held back ") + said;
  };
  EXPECT_EQ(judge("echo \"ax'\""), "held back ax'\n") << "a star in a piece is a star";
  EXPECT_EQ(judge("printf \"a*xx'\""), "held back a*xx'") << "without the newline";
  EXPECT_EQ(judge("echo \"a*anything'\""), "passed a*anything'\n");
  EXPECT_EQ(sh(gate_text({gate, 2})), gate_closed) << "no step is left out";
  EXPECT_EQ(sh(after_script("echo \"a*'\"; exit 3", action, &expected)), 3);
  EXPECT_EQ(sh(after_script("echo never", folder.path() + "/none", &expected)), 0);
  EXPECT_EQ(out(), "") << "an action that did not begin is not asked about";
}

}  // namespace
}  // namespace millwright::testing
