// A plan that is kept, and done later: exactly, or not at all.
#include "orchestrator/engine/saved_plan.hpp"

#include <gtest/gtest.h>

#include "orchestrator/engine/parameters.hpp"
#include "tests/unit/engine/harness.hpp"

namespace millwright::testing {
namespace {

using Lines = std::vector<std::string>;

constexpr const char* book = R"(
name: x
hosts: all
steps:
  - {id: here, uses: note, with: {path: "{dir}/here", text: one}}
  - {id: conf, uses: note, with: {path: "{dir}/conf", text: two}}
  - {id: never, uses: note, when: "false", with: {path: "{dir}/never", text: x}}
  - {id: test, uses: smoke, with: {path: "{dir}/conf"}}
)";

class SavedPlanTest : public ::testing::Test {
 protected:
  std::vector<PlannedUnit> plan(const std::string& text) {
    bench_.options.mode = Mode::plan;
    EXPECT_TRUE(bench_.apply(text)) << (bench_.error ? render(*bench_.error) : "");
    bench_.options.mode = Mode::apply;
    return planned_units(bench_.all_events());
  }
  void do_it(const std::string& text, const std::vector<PlannedUnit>& units) {
    bench_.options.approved = std::make_shared<const std::vector<PlannedUnit>>(units);
    EXPECT_TRUE(bench_.apply(text)) << (bench_.error ? render(*bench_.error) : "");
    bench_.options.approved.reset();
  }
  Bench bench_;
};

Lines states(const std::vector<PlannedUnit>& units) {
  Lines out;
  for (const PlannedUnit& unit : units) out.push_back(unit.shown() + ": " + unit.state);
  return out;
}

Lines texts(const std::vector<PlanDifference>& differences) {
  Lines out;
  for (const PlanDifference& one : differences) out.push_back(one.text);
  return out;
}

// The second path comes from the first step; its version is known, and wrong whatever that path will be.
TEST_F(SavedPlanTest, WhatIsWrongAlreadyIsSaidThoughTheRestIsKnownLater) {
  const auto book_of = [](const std::string& version) {
    return "name: x\nhosts: all\nvars: {v: " + version +
           "}\nsteps:\n  - {id: a, uses: release, with: {path: \"{dir}/a\", version: \"1\"}}\n"
           "  - {id: b, uses: release, with: {path: \"{{ steps.a.endpoint }}\", version: \"{{ vars.v }}\"}}\n";
  };
  EXPECT_EQ(states(plan(book_of("\"2\""))), (Lines{"h1, step a: unknown", "h1, step b: unknown"}));
  plan(book_of("nonsense"));
  bool named = false;
  for (const Event& event : bench_.all_events())
    named = named || event.data.dump().find("'nonsense' is no version") != std::string::npos;
  EXPECT_TRUE(named);
}

TEST_F(SavedPlanTest, HoldsEveryStepInItsState) {
  ASSERT_TRUE(bench_.apply("name: x\nhosts: all\nsteps:\n  - {uses: note, with: {path: \"{dir}/here\", text: one}}\n"));
  const auto units = plan(book);
  EXPECT_EQ(states(units),
            (Lines{"h1, step here: ok", "h1, step conf: change", "h1, step never: skipped", "h1, step test: unknown"}));
  ASSERT_EQ(units[1].actions.size(), 1u);
  EXPECT_EQ(units[1].actions[0]["title"], "write " + bench_.dir("h1") + "/conf");
  EXPECT_EQ(units[1].actions[0]["files"][0]["sha256"].get<std::string>().size(), 64u);
  EXPECT_FALSE(units[1].actions[0]["undo"].get<std::string>().empty());
  EXPECT_FALSE(units[1].answers.empty());
}

TEST_F(SavedPlanTest, GoesIntoAFileAndBack) {
  SavedPlan plan_made;
  plan_made.by = "me@here";
  plan_made.playbook_path = "x.yml";
  plan_made.playbook_text = bench_.text_of(book);
  plan_made.files = {{"parts/base.yml", "[]"}};
  plan_made.units = plan(book);
  const std::string text = saved_plan_json(plan_made).dump(1);
  EXPECT_TRUE(is_saved_plan(text));
  EXPECT_FALSE(is_saved_plan(bench_.text_of(book)));
  EXPECT_FALSE(is_saved_plan(R"({"hosts": "all", "steps": []})")) << "a playbook may be JSON";
  const auto back = read_saved_plan(text, "plan.json");
  ASSERT_TRUE(back) << render(back.error());
  EXPECT_EQ(saved_plan_json(*back)["steps"], saved_plan_json(plan_made)["steps"]);
  EXPECT_EQ(back->files, plan_made.files);
  EXPECT_TRUE(plan_differences(back->units, plan(book)).empty());
}

TEST_F(SavedPlanTest, IsDoneAsItWasWrittenOrNotAtAll) {
  SavedPlan made;
  made.playbook_text = "hosts: all\nsteps: []\n";
  Value value = saved_plan_json(made);
  value["playbook"]["text"] = "hosts: all\nsteps: [{uses: note}]\n";
  const auto changed = read_saved_plan(value.dump(), "p");
  ASSERT_FALSE(changed);
  EXPECT_EQ(changed.error().kind, ErrorKind::invalid);
  value = saved_plan_json(made);
  value["schema_version"] = 99;
  ASSERT_FALSE(read_saved_plan(value.dump(), "p"));
  EXPECT_EQ(read_saved_plan(value.dump(), "p").error().kind, ErrorKind::stale);
  value = saved_plan_json(made);
  value.erase("steps");
  EXPECT_FALSE(read_saved_plan(value.dump(), "p"));
}

TEST_F(SavedPlanTest, NamesTheAnswerThatChanged) {
  const auto before = plan(book);
  EXPECT_TRUE(plan_differences(before, plan(book)).empty());
  write_file(bench_.dir("h1") + "/conf", "three");
  const auto differences = plan_differences(before, plan(book));
  ASSERT_FALSE(differences.empty());
  EXPECT_EQ(differences[0].host, "h1");
  EXPECT_EQ(differences[0].step, "conf");
  EXPECT_FALSE(differences[0].question.empty());
  EXPECT_EQ(differences[0].text, "h1, step conf: the answer to '" + differences[0].question + "' is another one now");
  for (const PlanDifference& one : differences) EXPECT_EQ(one.step, "conf");
}

TEST_F(SavedPlanTest, AStepThatCameOrWentIsADifference) {
  const auto before = plan(book);
  const std::string more = std::string(book) + "  - {id: more, uses: note, with: {path: \"{dir}/more\", text: x}}\n";
  EXPECT_EQ(texts(plan_differences(before, plan(more))), Lines{"h1, step more: was not there when it was planned"});
  EXPECT_EQ(texts(plan_differences(plan(more), before)),
            Lines{"h1, step more: was to change, and is not there any more"});
}

TEST_F(SavedPlanTest, IsDone) {
  const std::string two_notes =
      "name: x\nhosts: all\nsteps:\n"
      "  - {id: a, uses: note, with: {path: \"{dir}/a\", text: one}}\n"
      "  - {id: b, uses: note, with: {path: \"{dir}/b\", text: two}}\n";
  do_it(two_notes, plan(two_notes));
  EXPECT_EQ(bench_.results(), (Lines{"h1 a changed", "h1 b changed"})) << bench_.last.sentence;
  EXPECT_EQ(read_file(bench_.dir("h1") + "/b"), "two");
}

TEST_F(SavedPlanTest, WhatAnEarlierStepMadeNeedlessIsLeftOut) {
  // Both write the same file, so the second finds it as it wants it.
  const std::string twice =
      "name: x\nhosts: all\nsteps:\n"
      "  - {id: a, uses: note, with: {path: \"{dir}/a\", text: one}}\n"
      "  - {id: b, uses: note, with: {path: \"{dir}/a\", text: one}}\n";
  do_it(twice, plan(twice));
  EXPECT_EQ(bench_.results(), (Lines{"h1 a changed", "h1 b ok"})) << bench_.last.sentence;
}

TEST_F(SavedPlanTest, NothingElseIsDoneThanWhatWasPlanned) {
  const std::string text =
      "name: x\nhosts: all\nsteps:\n  - {id: a, uses: note, with: {path: \"{dir}/a\", text: one}}\n";
  ASSERT_TRUE(bench_.apply(text));
  const auto as_wanted = plan(text);
  std::filesystem::remove(bench_.dir("h1") + "/a");
  do_it(text, as_wanted);
  EXPECT_EQ(bench_.last.exit, ExitCode::stale) << bench_.last.sentence;
  EXPECT_EQ(read_file(bench_.dir("h1") + "/a"), "");
  EXPECT_TRUE(bench_.events(EventType::action_started).empty());
  // And what was planned, but with another script.
  auto other = plan(text);
  other[0].actions[0]["script"] = "something else";
  do_it(text, other);
  EXPECT_EQ(bench_.last.exit, ExitCode::stale) << bench_.last.sentence;
  EXPECT_EQ(read_file(bench_.dir("h1") + "/a"), "");
}

TEST_F(SavedPlanTest, WhatWasUnknownWasApprovedAsThat) {
  const std::string text = R"(
name: x
hosts: all
steps:
  - {id: box, uses: box, with: {path: "{dir}/box"}}
  - {id: inside, in: box, uses: note, with: {path: "{dir}/inside", text: one}}
)";
  const auto units = plan(text);
  EXPECT_EQ(states(units), (Lines{"h1, step box: change", "h1/" + bench_.dir("h1") + "/box, step inside: unknown"}));
  do_it(text, units);
  EXPECT_EQ(bench_.last.exit, ExitCode::done) << bench_.last.sentence;
  EXPECT_EQ(read_file(bench_.dir("h1") + "/inside"), "one");
}

TEST_F(SavedPlanTest, HoldsNoSecretsAndDoesNotMindThatOneIsRenewed) {
  const std::string key = bench_.folder.path() + "/key";
  const std::string text = "name: x\nhosts: all\nvars:\n  key: !secret \"file:" + key +
                           "\"\nsteps:\n  - {id: a, uses: note, with: {path: \"{dir}/a\", text: \"{{ vars.key }}\"}}\n";
  write_file(key, "sesame-71123");
  SavedPlan made;
  made.playbook_text = bench_.text_of(text);
  made.units = plan(text);
  EXPECT_EQ(saved_plan_json(made).dump().find("sesame"), std::string::npos);
  write_file(key, "sesame-80815");
  EXPECT_TRUE(plan_differences(made.units, plan(text)).empty());
  do_it(text, made.units);
  EXPECT_EQ(read_file(bench_.dir("h1") + "/a"), "sesame-80815") << bench_.last.sentence;
}

}  // namespace
}  // namespace millwright::testing
