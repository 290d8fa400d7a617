// drift and verify: what is not as it should be, asked without changing anything. And: a run is resumed as it began.
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/unit/engine/harness.hpp"

namespace millwright::testing {
namespace {

using Lines = std::vector<std::string>;

constexpr const char* notes = R"(
name: x
hosts: all
steps:
  - {id: a, uses: note, with: {path: "{dir}/a", text: one}}
  - {id: always, uses: say, with: {to: "{dir}/said", text: hello}}
  - {id: b, uses: note, with: {path: "{dir}/b", text: two}}
)";

constexpr const char* served = R"(
name: served
hosts: all
steps:
  - {id: server, uses: release, with: {path: "{dir}/served", version: good-1}}
  - {id: test, uses: smoke, with: {path: "{dir}/served"}}
)";

Result<RunSummary> look(Bench& bench, const char* book, Asking asking, const Lines& hosts = {"h1"}) {
  bench.options.mode = Mode::plan;
  bench.options.asking = asking;
  Result<RunSummary> summary = bench.apply(book, hosts);
  bench.options.mode = Mode::apply;
  bench.options.asking = Asking::plan;
  return summary;
}

Lines planned(const Bench& bench) {
  Lines out;
  for (const Event& event : bench.events(EventType::step_planned)) {
    out.push_back(event.host + " " + event.step + " " + event.data["state"].get<std::string>());
  }
  return out;
}

TEST(Drift, IsNoneAfterAnApplyAndWhatAlwaysRunsIsNoDrift) {
  Bench bench;
  ASSERT_TRUE(bench.apply(notes));
  const std::string before = tree(bench.folder.path());
  ASSERT_TRUE(look(bench, notes, Asking::drift));
  EXPECT_EQ(planned(bench), (Lines{"h1 a ok", "h1 always unknown", "h1 b ok"}));
  EXPECT_EQ(bench.last.exit, ExitCode::done);
  EXPECT_EQ(bench.last.sentence, "everything is as the playbook says");
  EXPECT_EQ(tree(bench.folder.path()), before);
}

// What runs in a container that is still to be made is no failure of a plan.
TEST(Plan, OfStepsInAContainerToComeIsKnownWhenTheyRun) {
  Bench bench;
  constexpr const char* boxed =
      "name: x\nhosts: all\nsteps:\n  - {id: box, uses: box, with: {path: \"{dir}/box\"}}\n"
      "  - {id: in, uses: note, in: box, with: {path: \"{dir}/box/in\", text: one}}\n"
      "  - {id: out, uses: note, with: {path: \"{dir}/out\", text: one}}\n";
  ASSERT_TRUE(look(bench, boxed, Asking::plan));
  EXPECT_EQ(bench.last.exit, ExitCode::done) << bench.last.sentence;
  const Lines said = planned(bench);
  ASSERT_EQ(said.size(), 3u);
  EXPECT_EQ(said[0], "h1 box change");
  EXPECT_NE(said[1].find(" in unknown"), std::string::npos) << said[1];
  EXPECT_EQ(said[2], "h1 out change");
}

TEST(Drift, IsWhatSomebodyChanged) {
  Bench bench;
  ASSERT_TRUE(bench.apply(notes, {"h1", "h2"}));
  std::filesystem::remove(bench.dir("h2") + "/b");
  ASSERT_TRUE(look(bench, notes, Asking::drift, {"h1", "h2"}));
  EXPECT_EQ(bench.last.exit, ExitCode::failed);
  EXPECT_EQ(bench.last.sentence, "1 step on 1 host is not as the playbook says");
  EXPECT_FALSE(std::filesystem::exists(bench.dir("h2") + "/b")) << "drift only asks";
  bench.lab.refuse("h1");
  std::filesystem::remove(bench.dir("h2") + "/a");
  ASSERT_TRUE(look(bench, notes, Asking::drift, {"h1", "h2"}));
  EXPECT_EQ(bench.last.exit, ExitCode::failed) << "that something differs is known, whoever was not reached";
}

TEST(Drift, OutOfReachIsACodeOfItsOwn) {
  Bench bench;
  bench.lab.refuse("h1");
  ASSERT_TRUE(look(bench, notes, Asking::drift));
  EXPECT_EQ(bench.last.exit, ExitCode::unreachable);
}

TEST(Drift, OfARunKnowsWhatItHadDone) {
  Bench bench;
  ASSERT_TRUE(bench.apply(notes));
  const std::string run = bench.last.run;
  ASSERT_TRUE(bench.look_again(run, Asking::drift)) << render(*bench.error);
  EXPECT_EQ(planned(bench), (Lines{"h1 a ok", "h1 always ok", "h1 b ok"}));
  EXPECT_NE(bench.last.run, run) << "the run that is looked at is over";
  write_file(bench.dir("h1") + "/a", "three");
  ASSERT_TRUE(bench.look_again(run, Asking::drift));
  EXPECT_EQ(bench.last.exit, ExitCode::failed);
}

TEST(Verify, RunsTheTestsOfARunAgain) {
  Bench bench;
  ASSERT_TRUE(bench.apply(served)) << render(*bench.error);
  ASSERT_EQ(bench.last.exit, ExitCode::done) << bench.last.sentence;
  const std::string run = bench.last.run;
  ASSERT_TRUE(bench.look_again(run, Asking::verify)) << render(*bench.error);
  EXPECT_EQ(bench.last.exit, ExitCode::done) << bench.last.sentence;
  EXPECT_EQ(bench.results(), (Lines{"h1 server unknown", "h1 test ok"}));
  write_file(bench.dir("h1") + "/served", "garbage");
  const std::string before = tree(bench.dir("h1"));
  ASSERT_TRUE(bench.look_again(run, Asking::verify));
  EXPECT_EQ(bench.last.exit, ExitCode::failed);
  EXPECT_EQ(bench.results(), (Lines{"h1 server unknown", "h1 test failed"}));
  EXPECT_EQ(tree(bench.dir("h1")), before) << "no remedy, no rollback";
  ASSERT_TRUE(bench.look_again(run, Asking::drift));
  EXPECT_EQ(bench.last.exit, ExitCode::done) << "drift runs no tests";
}

TEST(Resume, IsOfThePlaybookAndTheIncludesThatItBeganWith) {
  Bench bench;
  const std::string part = bench.folder.path() + "/part.yml";
  write_file(part, "- {id: a, uses: note, with: {path: \"{{ vars.dir }}/a\", text: one}}\n");
  const std::string book = "name: x\nhosts: all\nsteps:\n  - include: " + part + "\n";
  bench.lab.refuse("h1");
  ASSERT_TRUE(bench.apply(book)) << render(*bench.error);
  ASSERT_EQ(bench.last.exit, ExitCode::unreachable);
  write_file(part, "- {id: other, uses: note, with: {path: \"{{ vars.dir }}/other\", text: two}}\n");
  Bench later(bench, bench.memory);
  ASSERT_TRUE(later.resume("last")) << render(*later.error);
  EXPECT_EQ(later.results(), Lines{"h1 a changed"}) << later.last.sentence;
  std::filesystem::remove(part);
  ASSERT_TRUE(later.rollback("last")) << "the file is needed no more: " << render(*later.error);
  EXPECT_FALSE(std::filesystem::exists(bench.dir("h1") + "/a"));
}

}  // namespace
}  // namespace millwright::testing
