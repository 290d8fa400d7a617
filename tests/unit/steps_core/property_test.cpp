// For random trees and random inputs: after acting, planning finds nothing, and undo gives the tree back. And the same
// on other shells than /bin/sh.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <random>

#include "steps/core/command.hpp"
#include "steps/core/file.hpp"
#include "steps/core/script.hpp"
#include "steps/core/template.hpp"
#include "tests/unit/steps_core/real_shell.hpp"

namespace millwright {
namespace {

namespace fs = std::filesystem;
using testing_tools::inputs_of;
using testing_tools::RealShell;

class Dice {
 public:
  explicit Dice(unsigned seed) : random_(seed) {}
  bool yes() { return random_() % 2 == 0; }
  template <class T>
  T pick(std::initializer_list<T> from) {
    return *(from.begin() + random_() % from.size());
  }

 private:
  std::mt19937 random_;
};

void grow(RealShell& shell, Dice& dice, const std::string& name) {
  switch (dice.pick({0, 1, 2, 3})) {
    case 0:
      shell.write(name, dice.pick<std::string>({"", "one\n", "no newline", std::string("\0\xff", 2)}),
                  dice.pick({0644, 0600, 0755}));
      break;
    case 1:
      shell.write(name + "/inner", "x", 0640);
      break;
    case 2:
      fs::create_symlink(dice.pick<std::string>({"nowhere", "."}), shell.path(name));
      break;
    default:
      break;
  }
}

Value random_file_inputs(RealShell& shell, Dice& dice) {
  Value given = {{"force", true}};
  const std::string name = dice.pick<std::string>({"a", "b c", "d'e", "new/deep/x"});
  given["path"] = shell.path(name);
  given["parents"] = true;
  const auto state = dice.pick<std::string>({"file", "directory", "absent", "link", "touch"});
  given["state"] = state;
  if (state == "file") given["content"] = dice.pick<std::string>({"", "one\n", "two\nlines\n", "it's $x `y`"});
  if (state == "link") given["target"] = dice.pick<std::string>({"nowhere", "b c", "/etc"});
  const bool mode_of_another = state == "touch" && fs::is_symlink(shell.path(name));  // is refused
  if (state != "link" && state != "absent" && !mode_of_another && dice.yes())
    given["mode"] = dice.pick<std::string>({"0600", "0755", "0711"});
  return given;
}

TEST(Property, FilesConvergeAndComeBackWhateverWasThere) {
  const FileStep file;
  for (unsigned seed = 1; seed <= 25; ++seed) {
    SCOPED_TRACE(seed);
    Dice dice(seed);
    RealShell shell;
    for (const char* name : {"a", "b c", "d'e"}) grow(shell, dice, name);
    shell.expect_contract(file, random_file_inputs(shell, dice));
  }
}

TEST(Property, GuardedCommandsAndScriptsConverge) {
  for (unsigned seed = 1; seed <= 6; ++seed) {
    SCOPED_TRACE(seed);
    Dice dice(seed);
    RealShell shell;
    const std::string path = shell.path(dice.pick<std::string>({"x", "y z", "it's"}));
    Value given = {{"env", {{"OUT", path}}}, {"undo", "rm -rf \"$OUT\""}};
    const bool folder = dice.yes();
    const std::string text = folder ? "mkdir -p \"$OUT\"" : "echo 1 >\"$OUT\"";
    if (dice.yes()) given["creates"] = path;
    if (!given.contains("creates")) given["unless"] = "test -e \"$OUT\"";
    if (dice.yes()) {
      given["run"] = text;
      shell.expect_contract(CommandStep(), given);
    } else {
      given["content"] = text;
      shell.expect_contract(ScriptStep(), given);
    }
  }
}

bool has(const std::string& tool) { return std::system(("command -v " + tool + " >/dev/null").c_str()) == 0; }

void expect_files_work_on(const std::string& sh) {
  SCOPED_TRACE(sh);
  RealShell shell({.shell = sh});
  shell.write("d/x", "X");
  shell.write("f", "old\n");
  const FileStep file;
  shell.expect_contract(file, {{"path", shell.path("f")}, {"content", "new\n"}, {"mode", "0600"}});
  shell.expect_contract(file, {{"path", shell.path("d")}, {"state", "absent"}});
  shell.expect_contract(file, {{"path", shell.path("f")}, {"mode", "0600"}});
  shell.expect_contract(file, {{"path", shell.path("p/q")}, {"state", "directory"}});
  shell.expect_contract(file, {{"path", shell.path("l")}, {"target", "f"}});
  shell.expect_contract(TemplateStep(), {{"path", shell.path("t")}, {"content", "t"}});
  shell.expect_contract(ScriptStep(), {{"content", "touch \"$1\"\n"},
                                       {"args", {shell.path("made")}},
                                       {"creates", shell.path("made")},
                                       {"undo", "rm -f '" + shell.path("made") + "'"}});
}

TEST(Property, OtherShells) {
  for (const std::string sh : {"dash", "bash --posix"}) {
    if (has(sh.substr(0, sh.find(' ')))) expect_files_work_on(sh);
  }
}

TEST(Property, NothingButBusybox) {
  if (!has("busybox")) GTEST_SKIP() << "busybox is not installed";
  const fs::path tools = fs::path(testing::TempDir()) / ("mw-busybox-" + std::to_string(::getpid()));
  fs::create_directory(tools);
  ASSERT_EQ(std::system(("busybox --install -s '" + tools.string() + "'").c_str()), 0);
  expect_files_work_on("'" + tools.string() + "/env' PATH='" + tools.string() + "' sh");
  fs::remove_all(tools);
}

}  // namespace
}  // namespace millwright
