#include "steps/core/script.hpp"

#include <gtest/gtest.h>

#include "tests/unit/steps_core/real_shell.hpp"

namespace millwright {
namespace {

using testing_tools::inputs_of;
using testing_tools::RealShell;

const ScriptStep kScript;

Value run(RealShell& shell, const Value& given) {
  const Inputs inputs = inputs_of(kScript, given);
  return kScript.outputs(inputs, {}, shell.apply(kScript, inputs).results).value();
}

TEST(Script, RunsAFileOfTheControllerWithArguments) {
  RealShell shell;
  shell.write("s.sh", "printf '%s|' \"$@\"\ncat <<'EOF'\n$HOME `x` 'q' \\\\\nEOF\n");
  EXPECT_EQ(run(shell, {{"source", shell.path("s.sh")}, {"args", {"a b", "$c", 3}}})["stdout"],
            "a b|$c|3|$HOME `x` 'q' \\\\");
}

TEST(Script, InterpreterFromTheFirstLineOrTheInput) {
  RealShell shell;
  EXPECT_EQ(run(shell, {{"content", "#!/usr/bin/env bash\nx=(1 2 3); echo ${#x[@]}"}})["stdout"], "3");
  EXPECT_EQ(run(shell, {{"content", "set -o | grep -c 'errexit.*on'"}, {"interpreter", "bash -e"}})["stdout"], "1");
}

TEST(Script, LeavesNothingBehindAlsoWhenItFails) {
  RealShell shell;
  EXPECT_EQ(run(shell, {{"content", "echo $0; exit 0"}})["rc"], 0);
  const Inputs failing = inputs_of(kScript, {{"content", "echo \"$0\"; exit 7"}});
  const auto change = shell.plan(kScript, failing);
  Answer answer = shell.act(change->actions[0], shell.new_save_dir());
  EXPECT_EQ(answer.exit_code, 7);
  answer.out.pop_back();
  EXPECT_FALSE(std::filesystem::exists(answer.out)) << answer.out;
  EXPECT_FALSE(std::filesystem::exists(std::filesystem::path(answer.out).parent_path()));
}

TEST(Script, GuardsAndUndo) {
  RealShell shell;
  shell.expect_contract(kScript, {{"content", "#!/bin/sh\nmkdir made"},
                                  {"chdir", shell.path("")},
                                  {"creates", shell.path("made")},
                                  {"undo", "rm -rf made"}});
}

TEST(Script, MistakesAreFoundBeforeAnythingIsContacted) {
  RealShell shell;
  shell.write("program", std::string("\x7f"
                                     "ELF\0\0",
                                     6));
  EXPECT_THROW(inputs_of(kScript, {{"source", shell.path("absent")}}), std::runtime_error);
  EXPECT_THROW(inputs_of(kScript, {{"source", shell.path("program")}}), std::runtime_error);
  EXPECT_THROW(inputs_of(kScript, {{"source", shell.path("")}}), std::runtime_error);
  EXPECT_THROW(inputs_of(kScript, {{"source", shell.path("program")}, {"content", "x"}}), std::runtime_error);
}

}  // namespace
}  // namespace millwright
