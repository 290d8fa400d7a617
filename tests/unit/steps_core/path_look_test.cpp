// What is seen of many paths at once gives the answers that each path gives when it is looked at alone.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "orchestrator/base/shell.hpp"
#include "steps/core/path_actions.hpp"
#include "tests/unit/steps_core/real_shell.hpp"

namespace millwright {
namespace {

namespace fs = std::filesystem;
using testing_tools::RealShell;

constexpr std::size_t kLarge = (4u << 20) + 1;  // hashed by itself

class PathLook : public testing::TestWithParam<std::string> {
 protected:
  PathLook() : shell_({.shell = GetParam()}) {}

  void make_paths() {
    for (const char* name : {"plain", "it's", "a b", "-n", "star*", "quote\"$x", "tab\there", "empty", "ünï"}) {
      shell_.write(name, std::string("empty") == name ? "" : std::string("text of ") + name + "\n", 0640);
      names_.emplace_back(name);
    }
    shell_.write("plain.more", "not plain\n");
    shell_.write("x/plain", "another plain\n", 0600);
    shell_.write("large", std::string(kLarge, 'x'));
    shell_.write("just not", std::string(kLarge - 1, 'y'));
    shell_.write("two  spaces", "1\n");
    shell_.write("new\nline", "2\n");
    shell_.write("back\\slash", "3\n");
    fs::create_directory(at("folder"));
    fs::create_symlink("plain", at("link"));
    fs::create_symlink("nowhere", at("dangling"));
    ASSERT_EQ(::mkfifo(at("pipe").c_str(), 0600), 0);
    for (const char* name :
         {"plain.more", "x/plain", "x", "large", "just not", "two  spaces", "new\nline", "back\\slash", "folder",
          "link", "dangling", "pipe", "absent", "absent/below", "plain/x"}) {
      names_.emplace_back(name);
    }
  }
  std::string at(const std::string& name) const { return shell_.path(name); }

  std::string seen_of_all() const {
    std::string script = "set --";
    for (const std::string& name : names_) {
      if (const auto look = core::path_look(at(name))) script += " " + shell_quote(look->word);
    }
    return shell_.run(script + "\n" + core::path_look("/x")->script, "").out;
  }

  RealShell shell_;
  std::vector<std::string> names_;
};

TEST_P(PathLook, AnswersAsOneByOne) {
  make_paths();
  const std::string seen = seen_of_all();
  for (const std::string& name : names_) {
    const std::string question = core::path_state_script(at(name), core::TreeSize::ask, {{1024, true, "none"}});
    const Answer alone = shell_.run(question, "");
    const Answer together = shell_.run("mw_paths=" + shell_quote(seen) + "\n" + question, "");
    EXPECT_EQ(together.out, alone.out) << name;
    EXPECT_EQ(together.exit_code, alone.exit_code) << name;
  }
}

// Without programs to ask there is only what was seen: so the answers do come from there.
TEST_P(PathLook, NeedsNoProgramForWhatWasSeen) {
  make_paths();
  const std::string seen = seen_of_all();
  for (const char* name : {"plain", "it's", "a b", "-n", "star*", "quote\"$x", "x/plain", "folder", "just not"}) {
    const std::string question = core::path_state_script(at(name), core::TreeSize::skip);
    const Answer alone = shell_.run(question, "");
    const Answer together = shell_.run("mw_paths=" + shell_quote(seen) + "\nPATH=/nowhere\n" + question, "");
    EXPECT_EQ(together.out, alone.out) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Shells, PathLook, testing::Values("/bin/sh", "/bin/bash"),
                         [](const auto& shell) { return shell.param.substr(shell.param.rfind('/') + 1); });

}  // namespace
}  // namespace millwright
