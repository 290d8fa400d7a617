// Every script that a core kind can render is POSIX sh: shellcheck, dash and (where it is) busybox read all of them.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>

#include <unistd.h>

#include "steps/core/register.hpp"
#include "tests/unit/steps_core/real_shell.hpp"
#include "tests/unit/steps_core/recorded.hpp"

namespace millwright {
namespace {

namespace fs = std::filesystem;
using testing_tools::answers_of;
using testing_tools::inputs_of;
using testing_tools::recorded;

struct Case {
  std::string kind;
  Value inputs;
  std::string key{};  // of the answer; empty: no question
  std::string answer{};
};

std::vector<Case> cases() {
  const std::string file = "file 644 0 0 abc\nowner root\ngroup root\nsize 3\n";
  const std::string folder = "directory 755 0 0\nowner root\ngroup root\nkib 4\n";
  const std::string absent = "absent\nancestor folder /a\n";
  const std::string apt = "manager apt\nlists none\npackage jq - - 1.6\nversion jq 1.6\n";
  const Value path = "/a/it's b";
  return {
      {"command",
       {{"run", "true"},
        {"chdir", "/a b"},
        {"env", {{"A", "it's"}}},
        {"creates", "/c d"},
        {"removes", "/e"},
        {"unless", "test -e /x"},
        {"undo", "true"}},
       "guard",
       "creates no\n"},
      {"script", {{"content", "echo 'x'\n"}, {"args", {"a b"}}, {"interpreter", "sh -e"}}},
      {"file", {{"path", path}, {"content", "x"}}, "state", absent},
      {"file", {{"path", path}, {"content", "x"}, {"mode", "0600"}}, "state", file},
      {"file", {{"path", path}, {"content", "x"}, {"force", true}}, "state", folder},
      {"file", {{"path", path}, {"content", "x"}, {"force", true}}, "state", "link /b c\n"},
      {"file", {{"path", "/a/b/c"}, {"content", "x"}, {"parents", true}}, "state", absent},
      {"file", {{"path", path}, {"mode", "0600"}, {"owner", "a b"}, {"group", "c"}}, "state", file},
      {"file", {{"path", path}, {"state", "directory"}, {"mode", "0700"}}, "state", absent},
      {"file", {{"path", path}, {"target", "x y"}}, "state", "link z\n"},
      {"file", {{"path", path}, {"state", "absent"}}, "state", file},
      {"template", {{"path", path}, {"content", "x"}}, "state", absent},
      {"package", {{"name", "jq"}}, "packages", apt},
      {"package", {{"name", "jq=1.6"}}, "packages", apt},
      {"package", {{"name", "jq"}, {"state", "absent"}}, "packages", "manager apt\npackage jq ii 1.6 -\n"},
      {"service", {{"name", "ssh"}, {"state", "stopped"}, {"enabled", false}}, "unit", recorded("systemd_running.txt")},
      {"service", {{"name", "ssh"}, {"state", "restarted"}}, "unit", recorded("systemd_running.txt")},
  };
}

std::vector<std::string> rendered() {
  StepRegistry registry;
  register_core_steps(registry);
  std::set<std::string> scripts;
  for (const Case& one : cases()) {
    const StepKind* kind = registry.find_converging(one.kind);
    const Inputs inputs = inputs_of(*kind, one.inputs);
    for (const Question& question : kind->ask(inputs)) {
      scripts.insert(question.script);
      if (question.shared) scripts.insert(question.shared->script);
    }
    Answers answers = one.key.empty() ? Answers() : answers_of(one.key, one.answer);
    const auto change = kind->plan(inputs, answers);
    EXPECT_TRUE(change && !change->empty()) << one.kind << " " << one.inputs;
    if (!change) continue;
    for (const Action& action : change->actions) scripts.insert({action.save, action.script, action.undo});
  }
  const ActiveStep* reboot = registry.find_active("reboot");
  for (const Question& q : reboot->preview_questions(inputs_of(*reboot, {{"needed_if", "true"}})))
    scripts.insert(q.script);
  scripts.erase("");
  return {scripts.begin(), scripts.end()};
}

class Scripts : public testing::Test {
 protected:
  void SetUp() override {
    dir_ = fs::path(testing::TempDir()) / ("mw-scripts-" + std::to_string(::getpid()));
    fs::create_directories(dir_);
    int number = 0;
    for (const std::string& script : rendered()) std::ofstream(dir_ / (std::to_string(++number) + ".sh")) << script;
    ASSERT_GT(number, 25);
  }
  void TearDown() override { fs::remove_all(dir_); }
  static bool has(const std::string& tool) { return std::system(("command -v " + tool + " >/dev/null").c_str()) == 0; }
  fs::path dir_;
};

TEST_F(Scripts, ShellcheckFindsNothing) {
  if (!has("shellcheck")) GTEST_SKIP() << "shellcheck is not installed";
  EXPECT_EQ(std::system(("shellcheck -s sh -S warning '" + dir_.string() + "'/*.sh").c_str()), 0);
}

TEST_F(Scripts, OtherShellsReadThemToo) {
  for (const std::string shell : {"dash", "bash --posix", "busybox sh"}) {
    if (!has(shell.substr(0, shell.find(' ')))) continue;
    for (const auto& entry : fs::directory_iterator(dir_)) {
      EXPECT_EQ(std::system((shell + " -n " + entry.path().string()).c_str()), 0) << shell;
    }
  }
}

}  // namespace
}  // namespace millwright
