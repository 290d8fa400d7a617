#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "orchestrator/base/text.hpp"
#include "tests/unit/engine/harness.hpp"

namespace millwright::testing {
namespace {

using Lines = std::vector<std::string>;

constexpr const char* three_notes = R"(
name: three
hosts: all
steps:
  - {id: a, uses: note, with: {path: "{dir}/a", text: one}}
  - {id: b, uses: note, with: {path: "{dir}/b", text: two}}
  - {id: c, uses: note, with: {path: "{dir}/c", text: three}}
)";

TEST(Converge, ChangesOnceAndIsThenAsWanted) {
  Bench bench;
  ASSERT_TRUE(bench.apply(three_notes)) << render(*bench.error);
  EXPECT_EQ(bench.results(), (Lines{"h1 a changed", "h1 b changed", "h1 c changed"}));
  EXPECT_EQ(bench.last.exit, ExitCode::done);
  EXPECT_EQ(tree(bench.dir("h1")), "a: one\nb: two\nc: three");
  ASSERT_TRUE(bench.apply(three_notes));
  EXPECT_EQ(bench.results(), (Lines{"h1 a ok", "h1 b ok", "h1 c ok"}));
  EXPECT_EQ(bench.events(EventType::action_started).size(), 0u);
}

TEST(Converge, AConvergedRunAsksOnceAndAFreshOneActsInOneGo) {
  Bench bench;
  std::string book = "name: many\nhosts: all\nsteps:\n";
  constexpr int steps = 30;
  for (int i = 0; i < steps; ++i) {
    book += "  - {id: s" + std::to_string(i) + ", uses: note, with: {path: \"{dir}/f" + std::to_string(i) +
            "\", text: x}}\n";
  }
  ASSERT_TRUE(bench.apply(book)) << render(*bench.error);
  // The first questions, all actions with their verification, giving the lock back.
  EXPECT_EQ(bench.lab.traffic("h1").round_trips, 3);
  bench.lab.clear_traffic();
  ASSERT_TRUE(bench.apply(book));
  EXPECT_EQ(bench.lab.traffic("h1").round_trips, 1);
  EXPECT_EQ(bench.last.hosts[0].ok, steps);
}

TEST(Converge, OutputsFlowIntoLaterSteps) {
  Bench bench;
  ASSERT_TRUE(bench.apply(R"(
name: flow
hosts: all
steps:
  - {id: a, uses: note, with: {path: "{dir}/a", text: one}, register: first}
  - {id: b, uses: note, with: {path: "{{ first.path }}.b", text: "{{ steps.a.text }} {{ first.changed }}"}}
  - {id: c, uses: note, when: "not first.changed", with: {path: "{dir}/c", text: never}}
  - {id: d, uses: note, foreach: [x, "y"], with: {path: "{dir}/d{{ index }}", text: "{{ item }}"}}
  - {id: e, uses: note, with: {path: "{dir}/e", text: "{{ steps.d.items | length }}"}}
)")) << render(*bench.error);
  EXPECT_EQ(bench.results(), (Lines{"h1 a changed", "h1 b changed", "h1 c skipped", "h1 d changed", "h1 e changed"}));
  EXPECT_EQ(tree(bench.dir("h1")), "a.b: one True\na: one\nd0: x\nd1: y\ne: 2");
}

TEST(Converge, AnActionOnStaleAnswersDoesNotRunAndIsPlannedAgain) {
  Bench bench;
  bool meddled = false;
  bench.lab.before_script([&](const std::string&, const std::string& script) {
    if (meddled || !starts_with(script, "# millwright:")) return;
    meddled = true;
    write_file(bench.dir("h1") + "/a", "somebody else's");
  });
  ASSERT_TRUE(
      bench.apply("name: x\nhosts: all\nsteps:\n  - {id: a, uses: note, with: {path: \"{dir}/a\", text: one}}\n"));
  EXPECT_EQ(bench.results(), (Lines{"h1 a changed"}));
  EXPECT_EQ(read_file(bench.dir("h1") + "/a"), "one");
  ASSERT_EQ(bench.events(EventType::step_planned).size(), 2u);
  EXPECT_NE(bench.events(EventType::step_planned)[1].data["diff"].get<std::string>().find("somebody"),
            std::string::npos);
  // What undo would put back is what somebody else wrote, not what was there when it was first planned.
  ASSERT_TRUE(bench.rollback("last")) << render(*bench.error);
  EXPECT_EQ(read_file(bench.dir("h1") + "/a"), "somebody else's");
}

TEST(Converge, ANodeThatKeepsChangingIsGivenUpAsStale) {
  Bench bench;
  int times = 0;
  bench.lab.before_script([&](const std::string&, const std::string& script) {
    if (starts_with(script, "# millwright:")) write_file(bench.dir("h1") + "/a", std::to_string(++times));
  });
  ASSERT_TRUE(
      bench.apply("name: x\nhosts: all\nsteps:\n  - {id: a, uses: note, with: {path: \"{dir}/a\", text: one}}\n"));
  EXPECT_EQ(bench.results(), (Lines{"h1 a failed"}));
  EXPECT_EQ(bench.last.exit, ExitCode::stale);
  EXPECT_LE(times, 5);
}

TEST(Converge, StillNotAsWantedAfterActingIsAFailure) {
  Bench bench;
  ASSERT_TRUE(bench.apply("name: x\nhosts: all\nsteps:\n  - {id: a, uses: stubborn}\n"));
  EXPECT_EQ(bench.results(), (Lines{"h1 a failed"}));
  EXPECT_NE(bench.last.sentence.find("still not as wanted after acting: not yet"), std::string::npos);
  EXPECT_EQ(bench.last.exit, ExitCode::failed);
}

TEST(Converge, AFailedActionSaysWhatItSaid) {
  Bench bench;
  ASSERT_TRUE(
      bench.apply("name: x\nhosts: all\nsteps:\n  - {id: a, uses: break, with: {path: \"{dir}/a\"}}\n"
                  "  - {id: b, uses: note, with: {path: \"{dir}/b\", text: x}}\n"
                  "  - {id: c, uses: note, needs: [], with: {path: \"{dir}/c\", text: x}}\n"));
  Lines results = bench.results();  // c has no need, so it runs beside the others
  std::sort(results.begin(), results.end());
  EXPECT_EQ(results, (Lines{"h1 a failed", "h1 b cancelled", "h1 c changed"}));
  const std::vector<Event> ends = bench.events(EventType::step_finished);
  const Event failed = *std::find_if(ends.begin(), ends.end(), [](const Event& end) { return end.step == "a"; });
  EXPECT_EQ(failed.data["error"]["exit_code"], 3);
  EXPECT_NE(failed.data["error"]["detail"].get<std::string>().find("it broke"), std::string::npos);
  EXPECT_EQ(bench.events(EventType::evidence_kept).size(), 1u);
}

TEST(Converge, ARefusalOfTheNodeChangesNothing) {
  Bench bench;
  write_file(bench.dir("h1") + "/a", "hands off");
  ASSERT_TRUE(
      bench.apply("name: x\nhosts: all\nsteps:\n  - {id: a, uses: note, with: {path: \"{dir}/a\", text: one}}\n"));
  EXPECT_EQ(bench.results(), (Lines{"h1 a refused"}));
  EXPECT_EQ(bench.last.exit, ExitCode::failed);
}

TEST(Converge, LargeFilesGoAheadOfTheirAction) {
  Bench bench;
  const std::string big(200'000, 'x');
  ASSERT_TRUE(bench.apply(
      "name: x\nhosts: all\nsteps:\n  - {id: a, uses: note, with: {path: \"{dir}/a\", text: " + big + "}}\n"));
  EXPECT_EQ(bench.results(), (Lines{"h1 a changed"}));
  EXPECT_EQ(read_file(bench.dir("h1") + "/a"), big);
}

TEST(Converge, PlanningAsksAndChangesNothing) {
  Bench bench;
  bench.options.mode = Mode::plan;
  ASSERT_TRUE(bench.apply(R"(
name: plan
hosts: all
steps:
  - {id: a, uses: note, with: {path: "{dir}/a", text: one}}
  - {id: b, uses: note, with: {path: "{dir}/b", text: "{{ steps.a.text }}"}}
  - {id: c, uses: say, with: {to: "{dir}/c", text: hi}}
  - {id: d, uses: smoke, with: {path: "{dir}/a"}}
)"));
  EXPECT_EQ(bench.results(), (Lines{"h1 a changed", "h1 b unknown", "h1 c changed", "h1 d unknown"}));
  EXPECT_EQ(tree(bench.dir("h1")), "");
  EXPECT_FALSE(std::filesystem::exists(bench.folder.path() + "/state"));
  const std::vector<Event> planned = bench.events(EventType::step_planned);
  ASSERT_EQ(planned.size(), 4u);
  EXPECT_EQ(planned[0].data["state"], "change");
  EXPECT_EQ(planned[0].data["actions"][0]["reversible"], true);
  EXPECT_EQ(planned[2].data["actions"][0]["reversible"], false);
  EXPECT_NE(planned[2].data["actions"][0]["script"].get<std::string>().find("echo hi"), std::string::npos);
  EXPECT_EQ(planned[1].data["summary"], "known when it runs");
  EXPECT_EQ(bench.last.exit, ExitCode::done);
  EXPECT_TRUE(bench.memory.locks().value().empty());
}

TEST(Converge, WhatAnEarlierChangeMayAllowIsKnownWhenItRuns) {
  Bench bench;
  bench.options.mode = Mode::plan;
  write_file(bench.dir("h1") + "/b", "hands off");
  const std::string refused = R"(  - {id: b, uses: note, with: {path: "{dir}/b", text: two}})";
  const std::string change = R"(  - {id: a, uses: note, with: {path: "{dir}/a", text: one}})";
  ASSERT_TRUE(bench.apply("name: p\nhosts: all\nsteps:\n" + change + "\n" + refused + "\n"));
  EXPECT_EQ(bench.results(), (Lines{"h1 a changed", "h1 b unknown"}));
  EXPECT_EQ(bench.last.exit, ExitCode::done) << bench.last.sentence;
  EXPECT_NE(bench.events(EventType::step_planned)[1].data["summary"].get<std::string>().find("says hands off"),
            std::string::npos);
  ASSERT_TRUE(bench.apply("name: p\nhosts: all\nsteps:\n" + refused + "\n" + change + "\n"));
  EXPECT_EQ(bench.results()[0], "h1 b refused") << "nothing before it changes anything";
  EXPECT_EQ(bench.last.exit, ExitCode::failed);
}

TEST(Converge, ASecretOfThePlaybookIsResolvedOnceAndHidden) {
  Bench bench;
  const std::string source = bench.folder.path() + "/source";
  const std::string asked = bench.folder.path() + "/asked";
  write_file(source, "hunter2-of-the-playbook");
  ASSERT_TRUE(bench.apply("name: s\nhosts: all\nvars:\n  key: !secret \"command:echo x >>" + asked + "; cat " + source +
                          "\"\nsteps:\n  - {id: a, uses: note, with: {path: \"{dir}/a\", text: \"{{ vars.key }}\"}}\n"
                          "  - {id: b, uses: note, with: {path: \"{dir}/b\", text: !secret \"file:" +
                          source + "\"}}\n"))
      << render(*bench.error);
  EXPECT_EQ(bench.results(), (Lines{"h1 a changed", "h1 b changed"})) << bench.last.sentence;
  EXPECT_EQ(tree(bench.dir("h1")), "a: hunter2-of-the-playbook\nb: hunter2-of-the-playbook");
  EXPECT_EQ(read_file(asked), "x\n");
  for (const Event& event : bench.sink->all()) {
    EXPECT_EQ(event.data.dump().find("hunter2"), std::string::npos) << event.data.dump();
  }
  const auto steps = bench.memory.steps(bench.last.run);
  ASSERT_TRUE(steps);
  for (const StepRecord& step : *steps) {
    EXPECT_EQ(step.inputs.dump().find("hunter2"), std::string::npos) << step.inputs.dump();
  }
}

TEST(Converge, VariablesAreUnderVarsOnly) {
  Bench bench;
  ASSERT_TRUE(bench.apply(R"(
name: v
hosts: all
vars: {word: one}
steps:
  - {id: a, uses: note, with: {path: "{dir}/a", text: "{{ vars.word }} {{ word | default('none') }} {{ dir | default('none') }}"}}
)")) << render(*bench.error);
  EXPECT_EQ(tree(bench.dir("h1")), "a: one none none");
}

TEST(Converge, AContainerIsEnteredOnceItExists) {
  Bench bench;
  const char* book = R"(
name: boxed
hosts: all
steps:
  - {id: box, uses: box, with: {path: "{dir}/box"}}
  - {id: a, uses: note, in: box, with: {path: "{dir}/box/a", text: one}}
  - {id: b, uses: note, in: box, with: {path: "{dir}/box/b", text: two}}
)";
  ASSERT_TRUE(bench.apply(book)) << render(*bench.error);
  const std::string box = "h1/" + bench.dir("h1") + "/box";
  EXPECT_EQ(bench.results(), (Lines{"h1 box changed", box + " a changed", box + " b changed"}));
  bench.lab.clear_traffic();
  ASSERT_TRUE(bench.apply(book));
  EXPECT_EQ(bench.lab.traffic("h1").round_trips, 1);
  EXPECT_EQ(bench.lab.traffic(box).round_trips, 1);
  ASSERT_TRUE(bench.rollback("last"));
}

TEST(Converge, TagsAndStartAtChooseSteps) {
  Bench bench;
  const char* book = R"(
name: tags
hosts: all
steps:
  - {id: a, uses: note, tags: [x], with: {path: "{dir}/a", text: one}}
  - {id: b, uses: note, tags: ["y"], with: {path: "{dir}/b", text: "{{ steps.a.text }}"}}
  - {id: c, uses: note, with: {path: "{dir}/c", text: three}}
)";
  bench.options.tags = {"x"};
  ASSERT_TRUE(bench.apply(book)) << render(*bench.error);
  EXPECT_EQ(tree(bench.dir("h1")), "a: one");
  bench.options.tags.clear();
  bench.options.start_at = "b";
  ASSERT_TRUE(bench.apply(book));
  EXPECT_EQ(tree(bench.dir("h1")), "a: one\nb: one\nc: three") << "the output of a was asked";
  bench.options.start_at = "d";
  EXPECT_FALSE(bench.apply(book));
  EXPECT_NE(bench.error->message.find("no step d"), std::string::npos);
}

}  // namespace
}  // namespace millwright::testing
