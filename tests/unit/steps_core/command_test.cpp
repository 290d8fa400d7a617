#include "steps/core/command.hpp"

#include <gtest/gtest.h>

#include "tests/unit/steps_core/real_shell.hpp"

namespace millwright {
namespace {

using testing_tools::inputs_of;
using testing_tools::RealShell;

const CommandStep kCommand;

Value outputs_of(const Inputs& inputs, const testing_tools::ActedChange& acted) {
  return kCommand.outputs(inputs, {}, acted.results).value();
}

TEST(Command, WithoutAGuardItAlwaysRunsAndIsNamedIrreversible) {
  RealShell shell;
  const Inputs inputs = inputs_of(kCommand, "echo hello; echo oops >&2");
  EXPECT_TRUE(kCommand.ask(inputs).empty());
  const auto acted = shell.apply(kCommand, inputs);
  EXPECT_EQ(acted.change.verification, Verification::exit_status);
  EXPECT_TRUE(acted.change.actions[0].undo.empty());
  EXPECT_EQ(outputs_of(inputs, acted), (Value{{"stdout", "hello"}, {"stderr", "oops"}, {"rc", 0}}));
}

TEST(Command, AListIsNotLookedAtByAShell) {
  RealShell shell;
  const Inputs inputs = inputs_of(kCommand, {{"run", {"printf", "%s|", "a b", "$HOME", "it's", "*"}}});
  EXPECT_EQ(outputs_of(inputs, shell.apply(kCommand, inputs))["stdout"], "a b|$HOME|it's|*|");
}

TEST(Command, AFailingLineEndsIt) {
  RealShell shell;
  const Inputs inputs = inputs_of(kCommand, "false\ntouch " + shell.path("after"));
  const auto change = shell.plan(kCommand, inputs);
  EXPECT_NE(shell.act(change->actions[0], shell.new_save_dir()).exit_code, 0);
  EXPECT_EQ(shell.tree().count("after"), 0u);
}

TEST(Command, EnvironmentAndFolder) {
  RealShell shell;
  shell.write("in dir/x", "");
  const Inputs inputs = inputs_of(kCommand, {{"run", "printf '%s %s' \"$A\" \"$B\"; ls; echo ${UNSET}"},
                                             {"env", {{"A", "it's"}, {"B", 5}}},
                                             {"chdir", shell.path("in dir")}});
  EXPECT_EQ(outputs_of(inputs, shell.apply(kCommand, inputs))["stdout"], "it's 5x");
}

TEST(Command, WhatMayCutTheConnectionNeedsAnUndo) {
  EXPECT_THROW(inputs_of(kCommand, {{"run", "true"}, {"may_drop_connection", true}}), std::runtime_error);
  const Inputs inputs =
      inputs_of(kCommand, {{"run", "true"}, {"undo", "true"}, {"may_drop_connection", true}, {"return_within", "40s"}});
  RealShell shell;
  const Action action = shell.plan(kCommand, inputs)->actions[0];
  EXPECT_TRUE(action.marks.may_drop_connection);
  EXPECT_EQ(action.deadline, std::chrono::seconds(40));
}

TEST(Command, GuardsMakeItConverge) {
  RealShell shell;
  const std::string path = shell.path("made by it");
  const Value create = {{"run", "echo 1 >'" + path + "'"}, {"creates", path}, {"undo", "rm -f '" + path + "'"}};
  EXPECT_EQ(shell.expect_contract(kCommand, create).verification, Verification::ask_again);

  shell.apply(kCommand, inputs_of(kCommand, create));
  const auto again = shell.plan(kCommand, inputs_of(kCommand, create));
  EXPECT_TRUE(again->empty());
  EXPECT_EQ(again->summary, path + " exists");

  const Inputs remove = inputs_of(kCommand, {{"run", {"rm", path}}, {"removes", path}});
  EXPECT_EQ(shell.apply(kCommand, remove).change.actions.size(), 1u);
  EXPECT_EQ(shell.plan(kCommand, remove)->summary, path + " is absent");
}

TEST(Command, UnlessOnlyLooksAndItsOutputIsNoPartOfTheAnswer) {
  RealShell shell;
  const Inputs inputs =
      inputs_of(kCommand, {{"run", "touch done"}, {"chdir", shell.path("")}, {"unless", "date +%N; test -e done"}});
  const auto first = shell.ask(kCommand, inputs);
  EXPECT_EQ(first.text("guard"), shell.ask(kCommand, inputs).text("guard"));
  EXPECT_EQ(shell.apply(kCommand, inputs).change.actions.size(), 1u);
  EXPECT_EQ(shell.plan(kCommand, inputs)->summary, "`unless` holds");
}

TEST(Command, UnlessInAFolderThatIsNotThereYetDoesNotHold) {
  RealShell shell;
  const Inputs inputs = inputs_of(kCommand, {{"run", "true"}, {"chdir", shell.path("later")}, {"unless", "true"}});
  EXPECT_FALSE(shell.plan(kCommand, inputs)->empty());
}

TEST(Command, BrokenUnlessIsRefusedWithWhatTheShellSaid) {
  RealShell shell;
  const auto change = shell.plan(kCommand, inputs_of(kCommand, {{"run", "true"}, {"unless", "if"}}));
  ASSERT_FALSE(change);
  EXPECT_EQ(change.error().kind, ErrorKind::refused);
  EXPECT_FALSE(change.error().detail.empty());
}

TEST(Command, MistakesAreFoundBeforeAnythingIsContacted) {
  EXPECT_THROW(inputs_of(kCommand, ""), std::runtime_error);
  EXPECT_THROW(inputs_of(kCommand, {{"run", Value::array({Value::array({"x"})})}}), std::runtime_error);
  EXPECT_THROW(inputs_of(kCommand, {{"run", true}}), std::runtime_error);
  EXPECT_THROW(inputs_of(kCommand, {{"run", "x"}, {"chdir", "relative"}}), std::runtime_error);
  EXPECT_THROW(inputs_of(kCommand, {{"run", "x"}, {"env", {{"A-B", "1"}}}}), std::runtime_error);
  const auto unknown = check_inputs(kCommand.signature(), {{"cmd", "x"}});
  EXPECT_NE(unknown.error()[0].hint.find("did you mean 'run'?"), std::string::npos);
}

}  // namespace
}  // namespace millwright
