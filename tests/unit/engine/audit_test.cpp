// The node's own log of what was done to it.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "orchestrator/base/redact.hpp"
#include "orchestrator/base/text.hpp"
#include "orchestrator/engine/action_script.hpp"
#include "orchestrator/journal/process_identity.hpp"
#include "tests/unit/engine/harness.hpp"

namespace millwright::testing {
namespace {

using Lines = std::vector<std::string>;

std::string log_of(const Bench& bench) { return bench.options.node_state_dir + "/audit.log"; }

// "step outcome: action, undo" of each line; a line that is no JSON fails the test.
Lines told(const std::string& path) {
  Lines out;
  for (const std::string& line : split_lines(read_file(path))) {
    const Value entry = Value::parse(line, nullptr, false);
    EXPECT_TRUE(entry.is_object()) << line;
    if (!entry.is_object()) continue;
    EXPECT_EQ(entry["time"].get<std::string>().size(), std::string("2026-11-30T12:00:00Z").size()) << line;
    EXPECT_FALSE(entry["run"].get<std::string>().empty());
    EXPECT_EQ(entry["by"], describe_this_process());
    out.push_back(entry["step"].get<std::string>() + " " + entry["outcome"].get<std::string>() + ": " +
                  entry["action"].get<std::string>() + ", " + entry["undo"].get<std::string>());
  }
  return out;
}

TEST(Audit, TheNodeWritesWhatIsDoneAndWhatIsTakenBack) {
  Bench bench;
  ASSERT_TRUE(
      bench.apply("name: x\nhosts: all\nsteps:\n  - {id: a, uses: note, with: {path: \"{dir}/it's\\n\\\\\", "
                  "text: one}}\n  - {id: b, uses: break, with: {path: \"{dir}/b\", status: 3}}\n"));
  ASSERT_TRUE(bench.rollback(bench.last.run));
  const Lines lines = told(log_of(bench));
  const std::string file = bench.dir("h1") + "/it's\n\\";
  ASSERT_EQ(lines.size(), 6u);
  EXPECT_EQ(lines[0], "a started: write " + file + ", put " + file + " back");
  EXPECT_EQ(lines[1], "a done: write " + file + ", put " + file + " back");
  EXPECT_TRUE(starts_with(lines[2], "b started: ")) << lines[2];
  EXPECT_TRUE(starts_with(lines[3], "b failed 3: ")) << lines[3];
  EXPECT_TRUE(starts_with(lines[4], "b undone: ")) << lines[4];
  EXPECT_TRUE(starts_with(lines[5], "a undone: ")) << lines[5];
  const auto mode = std::filesystem::status(log_of(bench)).permissions();
  EXPECT_EQ(static_cast<int>(mode), 0600);
}

TEST(Audit, HoldsNoSecrets) {
  Bench bench;
  write_file(bench.folder.path() + "/key", "sesame-5309");
  ASSERT_TRUE(
      bench.apply("name: x\nhosts: all\nvars:\n  key: !secret \"file:" + bench.folder.path() +
                  "/key\"\nsteps:\n  - {id: a, uses: note, with: {path: \"{dir}/{{ vars.key }}\", text: one}}\n"))
      << render(*bench.error);
  EXPECT_EQ(bench.results(), Lines{"h1 a changed"});
  EXPECT_EQ(read_file(bench.dir("h1") + "/sesame-5309"), "one");
  EXPECT_EQ(told(log_of(bench)).size(), 2u);
  EXPECT_EQ(read_file(log_of(bench)).find("sesame"), std::string::npos) << read_file(log_of(bench));
}

TEST(Audit, NothingRunsThatTheLogCannotTake) {
  Bench bench;
  std::filesystem::create_directories(bench.options.node_state_dir);
  std::filesystem::create_symlink("/nowhere/at/all", log_of(bench));
  ASSERT_TRUE(
      bench.apply("name: x\nhosts: all\nsteps:\n  - {id: a, uses: note, with: {path: \"{dir}/a\", text: one}}\n"));
  EXPECT_EQ(bench.results(), Lines{"h1 a refused"});
  EXPECT_EQ(read_file(bench.dir("h1") + "/a"), "");
}

TEST(Audit, IsRenamedWhenItHasGrown) {
  Bench bench;
  write_file(log_of(bench), std::string(1 << 20, 'x') + "\n");
  ASSERT_TRUE(
      bench.apply("name: x\nhosts: all\nsteps:\n  - {id: a, uses: note, with: {path: \"{dir}/a\", text: one}}\n"));
  EXPECT_EQ(told(log_of(bench)).size(), 2u);
  EXPECT_EQ(read_file(log_of(bench) + ".1").size(), (1u << 20) + 1);
}

}  // namespace
}  // namespace millwright::testing
