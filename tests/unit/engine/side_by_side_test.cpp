// Steps of one host at the same time: what may, what must not, and what the others see of it.
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "orchestrator/base/text.hpp"
#include "orchestrator/engine/answer_cache.hpp"
#include "orchestrator/engine/turns.hpp"
#include "tests/unit/engine/harness.hpp"

namespace millwright::testing {
namespace {

using Lines = std::vector<std::string>;

Lines sorted(Lines lines) {
  std::sort(lines.begin(), lines.end());
  return lines;
}

Lines log_of(const Bench& bench) { return split_lines(read_file(bench.dir("h1") + "/log")); }

// Nothing else begins or ends between the two.
bool undisturbed(const Lines& log, const std::string& name) {
  const auto begin = std::find(log.begin(), log.end(), "begin " + name);
  return begin != log.end() && begin + 1 != log.end() && *(begin + 1) == "end " + name;
}

TEST(SideBySide, RootsRunAtTheSameTimeAndWhatNeedsBothAfterThem) {
  Bench bench;
  ASSERT_TRUE(bench.apply(R"(
name: diamond
hosts: all
steps:
  - {id: top, uses: note, with: {path: "{dir}/top", text: x}}
  - {id: left, uses: span, needs: [top], with: {log: "{dir}/log", name: left, meets: right}}
  - {id: right, uses: span, needs: [top], with: {log: "{dir}/log", name: right, meets: left}}
  - {id: join, uses: span, needs: [left, right], with: {log: "{dir}/log", name: join}}
)")) << render(*bench.error);
  EXPECT_EQ(sorted(bench.results()),
            (Lines{"h1 join changed", "h1 left changed", "h1 right changed", "h1 top changed"}))
      << bench.last.sentence;
  EXPECT_TRUE(undisturbed(log_of(bench), "join"));
  ASSERT_TRUE(bench.rollback("last")) << render(*bench.error);
  EXPECT_EQ(bench.last.exit, ExitCode::rolled_back) << bench.last.sentence;
  EXPECT_EQ(tree(bench.dir("h1")), "log: ");
}

TEST(SideBySide, AConvergedRunStillAsksOnce) {
  const char* book = R"(
name: roots
hosts: all
steps:
  - {id: a, uses: note, needs: [], with: {path: "{dir}/a", text: x}}
  - {id: b, uses: note, needs: [], with: {path: "{dir}/b", text: x}}
  - {id: c, uses: note, needs: [], with: {path: "{dir}/c", text: x}}
  - {id: d, uses: note, needs: [a, b, c], with: {path: "{dir}/d", text: x}}
)";
  Bench bench;
  ASSERT_TRUE(bench.apply(book)) << render(*bench.error);
  EXPECT_EQ(bench.last.hosts[0].changed, 4) << bench.last.sentence;
  bench.lab.clear_traffic();
  ASSERT_TRUE(bench.apply(book));
  EXPECT_EQ(bench.lab.traffic("h1").round_trips, 1);
  EXPECT_EQ(bench.last.hosts[0].ok, 4);
}

TEST(SideBySide, ALockIsHeldByOneStepOfANodeAtATime) {
  Bench bench;
  ASSERT_TRUE(bench.apply(R"(
name: locked
hosts: all
steps:
  - {id: a, uses: span, needs: [], lock: apt, with: {log: "{dir}/log", name: a}}
  - {id: b, uses: span, needs: [], lock: apt, with: {log: "{dir}/log", name: b}}
  - {id: c, uses: span, needs: [], lock: apt, with: {log: "{dir}/log", name: c}}
)")) << render(*bench.error);
  EXPECT_EQ(bench.last.hosts[0].changed, 3) << bench.last.sentence;
  for (const char* name : {"a", "b", "c"}) EXPECT_TRUE(undisturbed(log_of(bench), name)) << name;
}

TEST(SideBySide, AContainerHasLocksOfItsOwn) {
  Bench bench;
  ASSERT_TRUE(bench.apply(R"(
name: locked
hosts: all
steps:
  - {id: box, uses: box, with: {path: "{dir}/box"}}
  - {id: in, uses: span, in: box, needs: [box], lock: apt, with: {log: "{dir}/log", name: in, meets: out}}
  - {id: out, uses: span, needs: [box], lock: apt, with: {log: "{dir}/log", name: out, meets: in}}
)")) << render(*bench.error);
  EXPECT_EQ(bench.last.hosts[0].changed, 3) << bench.last.sentence;
}

TEST(SideBySide, NothingRunsBesideADestructiveAction) {
  Bench bench;
  ASSERT_TRUE(bench.apply(R"(
name: alone
hosts: all
steps:
  - {id: a, uses: span, needs: [], with: {log: "{dir}/log", name: a}}
  - {id: d, uses: span, needs: [], with: {log: "{dir}/log", name: d, destructive: true}}
  - {id: e, uses: span, needs: [], with: {log: "{dir}/log", name: e, destructive: true}}
  - {id: b, uses: span, needs: [], with: {log: "{dir}/log", name: b}}
)")) << render(*bench.error);
  EXPECT_EQ(bench.last.hosts[0].changed, 4) << bench.last.sentence;
  for (const char* name : {"d", "e"}) EXPECT_TRUE(undisturbed(log_of(bench), name)) << name;
}

TEST(SideBySide, ARollbackWaitsForWhatStillRunsAndTakesThatBackToo) {
  Bench bench;
  const std::string gate = bench.folder.path() + "/bad-has-failed";
  bench.heard = [&](const Event& event) {
    if (event.type == EventType::step_finished && event.step == "bad") write_file(gate, "");
  };
  ASSERT_TRUE(bench.apply(R"(
name: back
hosts: all
steps:
  - {id: slow, uses: span, needs: [], with: {log: "{dir}/log", name: slow, awaits: "{dir}/../bad-has-failed"}}
  - {id: bad, uses: break, needs: [], with: {path: "{dir}/half"}, on_failure: [{do: rollback}]}
  - {id: later, uses: note, needs: [slow], with: {path: "{dir}/later", text: x}}
)")) << render(*bench.error);
  EXPECT_EQ(bench.last.exit, ExitCode::rolled_back) << bench.last.sentence;
  EXPECT_EQ(tree(bench.dir("h1")), "log: ");
  EXPECT_EQ(sorted(bench.results()), (Lines{"h1 bad failed", "h1 later cancelled", "h1 slow changed"}));
}

TEST(SideBySide, AFailureLeavesTheOtherRootAlone) {
  Bench bench;
  ASSERT_TRUE(bench.apply(R"(
name: apart
hosts: all
steps:
  - {id: bad, uses: break, needs: [], with: {path: "{dir}/half"}}
  - {id: after, uses: note, needs: [bad], with: {path: "{dir}/after", text: x}}
  - {id: other, uses: span, needs: [], with: {log: "{dir}/log", name: other}}
  - {id: last, uses: note, needs: [other], with: {path: "{dir}/last", text: x}}
)")) << render(*bench.error);
  EXPECT_EQ(sorted(bench.results()),
            (Lines{"h1 after cancelled", "h1 bad failed", "h1 last changed", "h1 other changed"}));
  EXPECT_EQ(bench.last.exit, ExitCode::failed);
}

TEST(SideBySide, AnInterruptLetsAllThatRunFinish) {
  Bench bench;
  bench.lab.before_script([&](const std::string&, const std::string& script) {
    if (script.rfind("# millwright: span b", 0) == 0) bench.interrupt = 1;
  });
  ASSERT_TRUE(bench.apply(R"(
name: stop
hosts: all
steps:
  - {id: a, uses: span, needs: [], with: {log: "{dir}/log", name: a, meets: b}}
  - {id: b, uses: span, needs: [], with: {log: "{dir}/log", name: b, meets: a}}
  - {id: c, uses: note, needs: [a, b], with: {path: "{dir}/c", text: x}}
)"));
  EXPECT_EQ(sorted(bench.results()), (Lines{"h1 a changed", "h1 b changed", "h1 c cancelled"}));
  EXPECT_EQ(bench.last.exit, ExitCode::interrupted);
}

TEST(SideBySide, ALineThatBreaksUnderTwoActionsIsFoundAgainOnceForBoth) {
  for (int at = 2; at < 9; ++at) {
    Bench bench;
    Faults faults;
    faults.drop_at_command = at;
    bench.lab.break_line("h1", faults);
    ASSERT_TRUE(bench.apply(R"(
name: broken
hosts: all
steps:
  - {id: a, uses: note, needs: [], with: {path: "{dir}/a", text: one}}
  - {id: b, uses: note, needs: [], with: {path: "{dir}/b", text: two}}
)"));
    EXPECT_EQ(sorted(bench.results()), (Lines{"h1 a changed", "h1 b changed"})) << at << ": " << bench.last.sentence;
    EXPECT_EQ(tree(bench.dir("h1")), "a: one\nb: two") << at;
  }
}

Answers answers(const std::string& text) {
  Answers out;
  out.set("q", {0, text, ""});
  return out;
}

TEST(AnswerCache, KeepsWhatNothingHasChangedSince) {
  AnswerCache cache;
  const auto quiet = cache.before_asking();
  cache.keep(quiet, "h1", {{"a", answers("1")}});
  EXPECT_TRUE(cache.has("h1", "a"));
  AnswerCache::Ticket meanwhile;
  {
    const Changing first(cache);
    EXPECT_FALSE(cache.has("h1", "a")) << "an action makes all answers old";
    cache.keep(quiet, "h1", {{"a", answers("1")}});
    EXPECT_FALSE(cache.has("h1", "a")) << "asked before it, arrived after it";
    meanwhile = cache.before_asking();
    cache.keep(first.ticket(), "h1", {{"a", answers("2")}});
    EXPECT_TRUE(cache.has("h1", "a")) << "asked behind the only action";
    const Changing second(cache);
    cache.keep(second.ticket(), "h1", {{"b", answers("3")}});
    EXPECT_FALSE(cache.has("h1", "b")) << "the first may still be changing something";
  }
  cache.keep(meanwhile, "h1", {{"a", answers("2")}});
  EXPECT_FALSE(cache.has("h1", "a")) << "asked while something changed";
}

TEST(AnswerCache, OneWhoWantsWhatIsOnItsWayWaitsForIt) {
  AnswerCache cache;
  std::optional<Answers> got;
  std::thread other;
  {
    AskTurn turn(cache, "h1");
    ASSERT_FALSE(turn.wait_for("a"));
    other = std::thread([&] {
      AskTurn second(cache, "h1");
      got = second.wait_for("b");
    });
    const auto ticket = cache.before_asking();
    turn.sending({"a", "b"});
    cache.keep(ticket, "h1", {{"a", answers("1")}, {"b", answers("2")}});
  }
  other.join();
  ASSERT_TRUE(got);
  EXPECT_EQ(got->text("q"), "2");
}

TEST(Turns, TwoThatWantToBeAloneGetTheirTurnsAndGivingUpFreesTheOthers) {
  Turns turns;
  turns.enter();
  turns.enter();
  std::atomic<int> inside{0};
  const auto alone = [&] {
    EXPECT_TRUE(turns.take_all([] { return false; }));
    EXPECT_EQ(++inside, 1);
    --inside;
    turns.give_back();
    turns.leave();
  };
  std::thread first(alone);
  std::thread second(alone);
  first.join();
  second.join();
  EXPECT_TRUE(turns.open());
  turns.enter();
  turns.enter();
  EXPECT_FALSE(turns.take_all([] { return true; }));
  EXPECT_TRUE(turns.open());
}

}  // namespace
}  // namespace millwright::testing
