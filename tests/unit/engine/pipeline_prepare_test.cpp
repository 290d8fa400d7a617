// What is put down for several actions at once, on a real /bin/sh.
#include "orchestrator/engine/pipeline_prepare.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>

#include "orchestrator/base/text.hpp"
#include "orchestrator/engine/action_parts.hpp"
#include "tests/unit/engine/harness.hpp"

namespace millwright::testing {
namespace {

using Kind = ActionMark::Kind;

class PipelinePrepareTest : public ::testing::Test {
 protected:
  std::string at(const std::string& name) const { return folder_.path() + "/" + name; }
  int sh(const std::string& script) {
    write_file(at("script"), script);
    const std::string command =
        "env -i PATH=\"$PATH\" LC_ALL=C /bin/sh " + at("script") + " >" + at("out") + " 2>" + at("err") + " </dev/null";
    const int status = std::system(command.c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  void SetUp() override {
    for (std::size_t i = 0; i < 2; ++i) {
      actions_[i].title = "action " + std::to_string(i);
      actions_[i].undo = "true";
      ActionScript& parts = parts_[i];
      parts.state_dir = at("state");
      parts.run = "r1";
      parts.holder = "me|m|b|n|1|2|now|testing";
      parts.remote_dir = at("state/runs/r1/" + std::to_string(i + 1) + "-it's one");
      parts.meta = "{}";
      parts.by = "me@here";
      parts.audit = {{"run", "r1"}, {"step", "s" + std::to_string(i)}};
      parts.action = &actions_[i];
      parts.gate = {gate(), i};
    }
  }
  std::string gate() const { return at("state/runs/r1/pipe-1"); }
  std::vector<const ActionScript*> both() const { return {&parts_[0], &parts_[1]}; }
  int prepare() { return sh(prepare_script(gate(), both())); }
  int run(std::size_t i) { return sh(compose_action(parts_[i])); }
  void open_next(std::size_t place) { write_file(gate(), std::to_string(place) + "\n"); }
  ActionMark mark(std::size_t i) {
    EXPECT_EQ(sh(settle_mark_script(parts_[i].remote_dir)), 0) << read_file(at("err"));
    return parse_mark(read_file(at("out")));
  }
  void place(std::size_t i, const std::string& path, const std::string& content, const std::string& owner = {}) {
    actions_[i].files.push_back({path, std::make_shared<const std::string>(content), {}, "0751", owner, {}});
    parts_[i].files.clear();
    for (const FilePlacement& file : actions_[i].files) parts_[i].files.push_back({&file, Delivery::put_down});
  }

  TemporaryFolder folder_;
  Action actions_[2];
  ActionScript parts_[2];
};

TEST_F(PipelinePrepareTest, ActionsRunInTurnAndLeaveTheirMarks) {
  actions_[0].save = "echo before >\"$MW_SAVE/state\"";
  actions_[0].script = "cp \"$MW_SAVE/state\" " + at("first");
  actions_[1].script = "umask >" + at("second");
  ASSERT_EQ(prepare(), 0) << read_file(at("err"));
  EXPECT_EQ(run(1), gate_closed);
  EXPECT_EQ(run(0), 0) << read_file(at("err"));
  EXPECT_EQ(run(1), gate_closed) << "nobody has let it begin";
  open_next(1);
  EXPECT_EQ(run(1), 0) << read_file(at("err"));
  EXPECT_EQ(read_file(at("first")), "before\n");
  EXPECT_EQ(read_file(at("second")), "0022\n");
  EXPECT_EQ(mark(0).kind, Kind::done);
  EXPECT_EQ(sh(finish_script(gate(), both())), 0) << read_file(at("err"));
  for (const char* end : {"", ".boot", ".clock"}) EXPECT_FALSE(std::filesystem::exists(gate() + end)) << end;
  const std::vector<std::string> log = split_lines(read_file(at("state/audit.log")));
  ASSERT_EQ(log.size(), 4u);
  for (const std::string& line : log) {
    const Value entry = Value::parse(line);
    EXPECT_EQ(entry["time"].get<std::string>().size(), std::string("2026-01-01T00:00:00Z").size()) << line;
  }
}

TEST_F(PipelinePrepareTest, FilesLieThereWithTheirModesAndAreMovedOrCopied) {
  const std::string content("it's %s \\ \0 \xff\n\n", 15);
  place(0, at("near"), content);
  place(0, "/dev/shm/" + std::filesystem::path(folder_.path()).filename().string(), content);
  place(0, at("made later/owned"), "x", std::to_string(getuid()));
  actions_[0].files[2].mode = "0600";
  std::filesystem::create_directory_symlink("/dev/shm", at("elsewhere"));
  place(0, actions_[0].files[1].path + "-2", content);
  actions_[0].files[3].path = at("elsewhere/" + std::filesystem::path(actions_[0].files[3].path).filename().string());
  actions_[1].script = "mkdir '" + at("made later") + "'";
  std::swap(parts_[0].gate.place, parts_[1].gate.place);
  ASSERT_EQ(prepare(), 0) << read_file(at("err"));
  for (const auto& [index, near] : {std::pair(0, true), {1, false}, {2, false}, {3, false}}) {
    EXPECT_EQ(std::filesystem::exists(parts_[0].remote_dir + "/files/" + std::to_string(index) + ".near"), near)
        << index;
  }
  ASSERT_EQ(run(1), 0) << read_file(at("err"));
  open_next(1);
  ASSERT_EQ(run(0), 0) << read_file(at("err"));
  for (const FilePlacement& file : actions_[0].files) {
    EXPECT_EQ(read_file(file.path), *file.content) << file.path;
    struct stat found {};
    ASSERT_EQ(stat(file.path.c_str(), &found), 0);
    EXPECT_EQ(found.st_mode & 07777u, file.mode == "0600" ? 0600u : 0751u) << file.path;
  }
  EXPECT_EQ(sh(finish_script(gate(), both())), 0) << read_file(at("err"));
  std::filesystem::remove(actions_[0].files[1].path);
  std::filesystem::remove(actions_[0].files[3].path);
}

TEST_F(PipelinePrepareTest, AFileThatCannotBePlacedIsAFailure) {
  place(0, at("none/file"), "x");
  ASSERT_EQ(prepare(), 0) << read_file(at("err"));
  EXPECT_EQ(run(0), 74);
  EXPECT_EQ(mark(0).kind, Kind::failed);
}

TEST_F(PipelinePrepareTest, WhereOneCannotBePutDownNoneBegins) {
  // Writing to a name that is a folder fails for root too, as a full disk would.
  std::filesystem::create_directories(parts_[1].remote_dir + "/meta.json");
  EXPECT_EQ(prepare(), cannot_create);
  EXPECT_EQ(run(0), gate_closed);
  EXPECT_EQ(mark(0).kind, Kind::undone);
}

TEST_F(PipelinePrepareTest, AnotherRunsLockIsNamed) {
  std::filesystem::create_directories(at("state"));
  std::filesystem::create_symlink("r0|some\\body", at("state/lock"));
  EXPECT_EQ(prepare(), locked_status);
  EXPECT_EQ(read_file(at("out")), "locked r0|some\\body\n");
  EXPECT_EQ(run(0), gate_closed);
}

// The mark of an action that saves nothing may not have reached the disk when the power goes.
TEST_F(PipelinePrepareTest, AfterABootInBetweenWhatHasNoMarkCountsAsStarted) {
  ASSERT_EQ(prepare(), 0) << read_file(at("err"));
  write_file(gate() + ".boot", "another boot\n");
  const ActionMark lost = mark(0);
  EXPECT_EQ(lost.kind, Kind::started);
  EXPECT_FALSE(lost.running);
  EXPECT_NE(lost.boot, lost.boot_at_start);
  EXPECT_EQ(run(0), 72) << "settled, so it never runs";
  EXPECT_EQ(sh(compose_undo(parts_[0].remote_dir, "", "me@here")), 0);
  EXPECT_EQ(mark(0).kind, Kind::undone);
  ASSERT_EQ(sh(finish_script(gate(), both())), 0);
  EXPECT_EQ(mark(1).kind, Kind::undone) << "the end was reached, so a mark that is not there was never made";
}

TEST_F(PipelinePrepareTest, AllTextsPassShellcheck) {
  if (std::system("command -v shellcheck >/dev/null 2>&1") != 0) GTEST_SKIP() << "no shellcheck here";
  place(0, at("near"), "x");
  place(0, at("owned"), "x", "root");
  actions_[0].save = "true";
  parts_[0].guard = {{"a", "true"}};
  parts_[0].planned_on.set("a", {0, "", ""});
  for (const std::string& script :
       {prepare_script(gate(), both()), finish_script(gate(), both()), compose_action(parts_[0])}) {
    write_file(at("script"), script);
    const std::string command =
        "shellcheck -s sh -S warning -e SC2034,SC1091,SC1090 " + at("script") + " >" + at("out") + " 2>&1";
    EXPECT_EQ(std::system(command.c_str()), 0) << read_file(at("out"));
  }
}

}  // namespace
}  // namespace millwright::testing
