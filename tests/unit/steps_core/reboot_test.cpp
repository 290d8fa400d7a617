#include "steps/core/reboot.hpp"

#include <gtest/gtest.h>

#include "tests/unit/steps_core/fake_context.hpp"
#include "tests/unit/steps_core/real_shell.hpp"

namespace millwright {
namespace {

using testing_tools::FakeContext;
using testing_tools::inputs_of;
using testing_tools::RealShell;

const RebootStep kReboot;

// A machine that is down for some seconds after the reboot command; the boot mark is what the real script would print.
class Machine {
 public:
  explicit Machine(const Value& given) : context(inputs_of(kReboot, given)) {
    context.machine.on_run = [this](const std::string& script) { return run(script); };
    context.machine.on_reconnect = [this]() -> Result<void> {
      if (!up()) return fail(ErrorKind::connect, "connection refused");
      return {};
    };
    context.on_act = [this](const Action&) -> Result<Answer> {
      rebooted_at = context.time.elapsed;
      return fail(ErrorKind::connect, "connection lost");
    };
  }

  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  bool up() const { return !rebooted_at || context.time.elapsed >= *rebooted_at + down_for; }

  Result<Answer> run(const std::string& script) {
    if (!up()) return fail(ErrorKind::connect, "connection lost");
    if (script.find("boot_id") != std::string::npos) {
      return Answer{0, rebooted_at && comes_back_new ? "new 20\n" : "old 10\n", ""};
    }
    if (script.find("reboot-required") != std::string::npos) return Answer{0, needed, ""};
    tests += 1;
    return Answer{tests < ready_after_tests ? 1 : 0, "", "not yet\n"};
  }

  FakeContext context;
  std::optional<Milliseconds> rebooted_at;
  Milliseconds down_for = std::chrono::seconds(30);
  bool comes_back_new = true;
  std::string needed;
  int tests = 0;
  int ready_after_tests = 1;
};

TEST(Reboot, ComesBackWithAnotherBootId) {
  Machine machine(nullptr);
  const auto outcome = kReboot.run(machine.context);
  ASSERT_TRUE(outcome) << outcome.error().message;
  EXPECT_EQ(outcome->state, StepState::changed);
  EXPECT_EQ(outcome->summary, "rebooted (asked for), up again after 30.0 s");
  EXPECT_EQ(outcome->outputs, (Value{{"rebooted", true}, {"elapsed", 30.0}, {"boot_id", "new"}}));
  ASSERT_EQ(machine.context.acted.size(), 1u);
  EXPECT_TRUE(machine.context.acted[0].marks.may_drop_connection);
  EXPECT_TRUE(machine.context.acted[0].undo.empty());
  EXPECT_EQ(machine.context.acted[0].script, "systemctl reboot\n");
}

TEST(Reboot, TheOldBootIdIsNoSuccess) {
  Machine machine(Value{{"timeout", "2m"}});
  machine.down_for = Milliseconds(0);
  machine.comes_back_new = false;
  const auto outcome = kReboot.run(machine.context);
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().kind, ErrorKind::timeout);
  EXPECT_EQ(outcome.error().message, "node1 did not come back in time: it has not gone down yet");
}

TEST(Reboot, WaitsForTheTestCommand) {
  Machine machine(Value{{"test_command", "mountpoint -q /srv"}});
  machine.ready_after_tests = 5;
  ASSERT_TRUE(kReboot.run(machine.context));
  EXPECT_EQ(machine.tests, 5);
  Machine never(Value{{"test_command", "mountpoint -q /srv"}, {"timeout", "1m"}});
  never.ready_after_tests = 1000;
  const auto late = kReboot.run(never.context);
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().message, "node1 is back, but test_command still says no in time: exit status 1 not yet");
}

TEST(Reboot, OnlyWhenNeeded) {
  Machine calm(Value{{"when", "needed"}});
  const auto outcome = kReboot.run(calm.context);
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->state, StepState::ok);
  EXPECT_TRUE(calm.context.acted.empty());
  Machine due("needed");
  due.needed = "needed\nlinux-image-6.1\ndbus\ndbus\n";
  EXPECT_EQ(kReboot.run(due.context)->summary, "rebooted (needed by dbus, linux-image-6.1), up again after 30.0 s");
}

TEST(Reboot, ARebootCommandThatFailsIsTheError) {
  Machine machine(nullptr);
  machine.context.on_act = [](const Action&) -> Result<Answer> {
    return fail(ErrorKind::remote_exit, "systemctl: command not found");
  };
  EXPECT_EQ(kReboot.run(machine.context).error().kind, ErrorKind::remote_exit);
}

TEST(Reboot, ACommandThatTheRebootKilledIsNoError) {
  Machine machine(nullptr);
  machine.context.on_act = [&machine](const Action&) -> Result<Answer> {
    machine.rebooted_at = machine.context.time.elapsed;
    Error killed = make_error(ErrorKind::remote_exit, "killed");
    killed.exit_code = 137;
    return fail(killed);
  };
  EXPECT_TRUE(kReboot.run(machine.context));
}

TEST(Reboot, StopsWhenToldTo) {
  Machine machine(nullptr);
  machine.context.on_act = [&machine](const Action&) -> Result<Answer> {
    machine.rebooted_at = machine.context.time.elapsed;
    machine.context.stop = true;
    return Answer{};
  };
  EXPECT_EQ(kReboot.run(machine.context).error().kind, ErrorKind::interrupted);
}

TEST(Reboot, TheRealScriptsRunOnARealShell) {
  RealShell shell;
  Answer mark;
  Machine machine(Value{{"when", "needed"}, {"needed_if", "false"}});
  machine.context.machine.on_run = [&](const std::string& script) -> Result<Answer> {
    Answer answer = shell.run(script, "-eu");
    if (script.find("boot_id") != std::string::npos) mark = answer;
    return answer;
  };
  const auto preview = kReboot.preview_questions(machine.context.inputs());
  Answers answers;
  answers.set("needed", shell.run(preview.at(0).script, "-eu"));
  const auto outcome = kReboot.run(machine.context);
  EXPECT_TRUE(mark.ok()) << mark.err;
  // A boot id is a UUID of 36 characters; after it the first process' start, in clock ticks.
  EXPECT_EQ(mark.out.find(' '), 36u) << mark.out;
  EXPECT_EQ(*kReboot.preview(machine.context.inputs(), answers) == "no reboot needed", machine.context.acted.empty());
  EXPECT_EQ(outcome.has_value(), machine.context.acted.empty());
}

}  // namespace
}  // namespace millwright
