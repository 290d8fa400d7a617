// The scripts that switch a server from one release to another and back, run by a real shell with a systemd of ten
// lines.
#include <gtest/gtest.h>

#include <filesystem>

#include "orchestrator/base/text.hpp"
#include "steps/server/release.hpp"
#include "tests/unit/steps_core/real_shell.hpp"

namespace millwright {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSystemd = R"sh(state() { cat @T@/state 2>/dev/null || echo inactive; }
systemctl() {
  echo "$*" >>@T@/calls
  case "$*" in
    stop*) echo inactive >@T@/state ;;
    *start*) [ "$(cat @T@/broken 2>/dev/null)" != "$(readlink @T@/var/servers/llm/current)" ] && echo active >@T@/state || echo failed >@T@/state ;;
    *is-active*) state; [ "$(state)" = active ] ;;
    is-enabled*) echo enabled ;;
    show*) state ;;
  esac
}
curl() { [ "$(state)" = active ]; }
id() { return 1; }
)sh";

class SwitchTest : public ::testing::Test {
 protected:
  SwitchTest() {
    spec_.name = "llm";
    spec_.engine = "llama.cpp";
    spec_.version = "1";
    spec_.port = 8080;
    for (const std::string number : {"1", "2"}) {
      shell_.write("var/servers/llm/releases/" + number + "/unit", "unit of " + number + "\n");
      shell_.write("var/servers/llm/releases/" + number + "/health", "http://127.0.0.1:8080/health\n");
    }
    fs::create_directories(shell_.path("etc"));
  }
  std::string here(std::string script) const {
    script = replace_all(kSystemd, "@T@", shell_.path("")) + std::move(script);
    script = replace_all(std::move(script), "/var/lib/millwright", shell_.path("var"));
    return replace_all(std::move(script), "/etc/systemd/system", shell_.path("etc"));
  }
  Action to(int number) const {
    Action action = switch_action(spec_, number);
    action.save = here(action.save);
    action.script = here(action.script);
    action.undo = here(action.undo);
    return action;
  }
  void runs(int number) {
    const Answer done = shell_.act(to(number), shell_.new_save_dir());
    ASSERT_TRUE(done.ok()) << done.err;
  }
  std::string current() const {
    std::error_code none;
    return fs::read_symlink(shell_.path("var/servers/llm/current"), none).string();
  }
  std::string unit() const { return shell_.read("etc/millwright-llm.service"); }
  std::string state() const { return shell_.read("state"); }

  testing_tools::RealShell shell_;
  ServerSpec spec_;
};

TEST_F(SwitchTest, TheOldOneIsStoppedBeforeTheNewOneStarts) {
  runs(1);
  shell_.write("calls", "");
  runs(2);
  EXPECT_EQ(current(), "releases/2");
  EXPECT_EQ(unit(), "unit of 2\n");
  EXPECT_EQ(state(), "active\n");
  const std::string calls = shell_.read("calls");
  EXPECT_LT(calls.find("stop millwright-llm.service"), calls.find("--no-block start millwright-llm.service")) << calls;
}

TEST_F(SwitchTest, UndoBringsBackWhatRan) {
  runs(1);
  const fs::path save = shell_.new_save_dir();
  ASSERT_TRUE(shell_.act(to(2), save).ok());
  for (int round = 0; round < 2; ++round) {
    const Answer undone = shell_.undo(to(2), save);
    EXPECT_TRUE(undone.ok()) << undone.err;
    EXPECT_EQ(current(), "releases/1");
    EXPECT_EQ(unit(), "unit of 1\n");
    EXPECT_EQ(state(), "active\n");
  }
}

TEST_F(SwitchTest, UndoStartsAgainWhatWasOnlyStopped) {
  runs(1);
  const fs::path save = shell_.new_save_dir();
  ASSERT_TRUE(shell_.run(to(2).save, "-eu", save).ok());
  shell_.write("state", "inactive\n");  // the script came no further than to its first line
  const Answer undone = shell_.undo(to(2), save);
  EXPECT_TRUE(undone.ok()) << undone.err;
  EXPECT_EQ(current(), "releases/1");
  EXPECT_EQ(state(), "active\n");
}

TEST_F(SwitchTest, UndoOfAFirstReleaseLeavesNothing) {
  const fs::path save = shell_.new_save_dir();
  ASSERT_TRUE(shell_.act(to(1), save).ok());
  EXPECT_TRUE(shell_.undo(to(1), save).ok());
  EXPECT_EQ(current(), "");
  EXPECT_FALSE(fs::exists(shell_.path("etc/millwright-llm.service")));
  EXPECT_EQ(state(), "inactive\n");
}

TEST_F(SwitchTest, UndoRefusesWhatSomebodyElseSwitchedSince) {
  shell_.write("var/servers/llm/releases/3/unit", "unit of 3\n");
  shell_.write("var/servers/llm/releases/3/health", "x\n");
  runs(1);
  const fs::path save = shell_.new_save_dir();
  ASSERT_TRUE(shell_.act(to(2), save).ok());
  runs(3);
  EXPECT_EQ(shell_.undo(to(2), save).exit_code, kUndoRefused);
  EXPECT_EQ(current(), "releases/3");
  EXPECT_EQ(state(), "active\n");
}

TEST_F(SwitchTest, UndoToAReleaseThatIsGoneStopsNothing) {
  runs(1);
  const fs::path save = shell_.new_save_dir();
  ASSERT_TRUE(shell_.act(to(2), save).ok());
  fs::remove_all(shell_.path("var/servers/llm/releases/1"));
  const Answer undone = shell_.undo(to(2), save);
  EXPECT_EQ(undone.exit_code, 1);
  EXPECT_NE(undone.err.find("releases/1 is no longer on the node"), std::string::npos) << undone.err;
  EXPECT_EQ(state(), "active\n");
}

TEST_F(SwitchTest, APreviousReleaseThatDoesNotComeBackIsSaid) {
  runs(1);
  const fs::path save = shell_.new_save_dir();
  ASSERT_TRUE(shell_.act(to(2), save).ok());
  shell_.write("broken", "releases/1\n");
  const Answer undone = shell_.undo(to(2), save);
  EXPECT_EQ(undone.exit_code, 1);
  EXPECT_NE(undone.err.find("the previous release did not start"), std::string::npos) << undone.err;
}

}  // namespace
}  // namespace millwright
