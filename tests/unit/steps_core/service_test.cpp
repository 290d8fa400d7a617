#include "steps/core/service.hpp"

#include <gtest/gtest.h>

#include "orchestrator/base/text.hpp"
#include "tests/unit/steps_core/real_shell.hpp"
#include "tests/unit/steps_core/recorded.hpp"

namespace millwright {
namespace {

using testing_tools::answers_of;
using testing_tools::inputs_of;
using testing_tools::recorded;

const ServiceStep kService;

Result<Change> plan(const Value& given, const std::string& answer) {
  return kService.plan(inputs_of(kService, given), answers_of("unit", answer));
}

std::string stopped_ssh() {
  return replace_all(replace_all(recorded("systemd_running.txt"), "ActiveState=active", "ActiveState=inactive"),
                     "UnitFileState=enabled", "UnitFileState=disabled");
}

TEST(Service, RunningAndEnabledIsAsWanted) {
  const Change change =
      plan({{"name", "ssh"}, {"state", "started"}, {"enabled", true}}, recorded("systemd_running.txt")).value();
  EXPECT_TRUE(change.empty());
  EXPECT_EQ(change.summary, "ssh.service is active");
  EXPECT_EQ(change.outputs,
            (Value{{"name", "ssh.service"}, {"state", "active"}, {"sub_state", "running"}, {"enabled", "enabled"}}));
}

TEST(Service, StartsAndEnables) {
  const Change change = plan({{"name", "ssh"}, {"state", "started"}, {"enabled", "yes"}}, stopped_ssh()).value();
  ASSERT_EQ(change.actions.size(), 2u);
  EXPECT_EQ(change.actions[0].title, "enable ssh.service");
  EXPECT_EQ(change.actions[1].title, "start ssh.service");
  EXPECT_EQ(change.actions[1].undo_title, "stop ssh.service");
  EXPECT_EQ(change.verification, Verification::ask_again);
  EXPECT_EQ(change.diff,
            "- ssh.service disabled\n+ ssh.service enabled\n- ssh.service inactive\n+ ssh.service active\n");
}

TEST(Service, StopsAndDisables) {
  const Change change =
      plan({{"name", "ssh"}, {"state", "stopped"}, {"enabled", false}}, recorded("systemd_running.txt")).value();
  ASSERT_EQ(change.actions.size(), 2u);
  EXPECT_EQ(change.actions[0].undo_title, "enable ssh.service again");
  EXPECT_EQ(change.actions[1].undo_title, "start ssh.service again");
  const std::string failed = replace_all(stopped_ssh(), "ActiveState=inactive", "ActiveState=failed");
  EXPECT_TRUE(plan({{"name", "ssh"}, {"state", "stopped"}}, failed)->empty());
}

TEST(Service, RestartAndReloadActEveryTime) {
  const std::string running = recorded("systemd_running.txt");
  const Change restart = plan({{"name", "ssh"}, {"state", "restarted"}}, running).value();
  EXPECT_EQ(restart.verification, Verification::exit_status);
  EXPECT_EQ(restart.actions[0].title, "restart ssh.service");
  EXPECT_EQ(restart.actions[0].undo_title, "restart ssh.service once what it reads is put back");
  EXPECT_EQ(plan({{"name", "ssh"}, {"state", "reloaded"}}, running)->actions[0].title, "reload ssh.service");
  EXPECT_EQ(plan({{"name", "ssh"}, {"state", "restarted"}}, stopped_ssh())->actions[0].title, "start ssh.service");
  const auto cannot =
      plan({{"name", "ssh"}, {"state", "reloaded"}}, replace_all(running, "CanReload=yes", "CanReload=no"));
  EXPECT_EQ(cannot.error().hint, "use state: restarted");
}

TEST(Service, UnitsThatCarryTheConnectionAreMarkedUnlessSaidOtherwise) {
  const std::string running = recorded("systemd_running.txt");
  const auto marked = [&](const Value& given, const std::string& answer) {
    return plan(given, answer)->actions[0].marks.may_drop_connection;
  };
  const Value stop = {{"name", "ssh"}, {"state", "stopped"}};
  EXPECT_TRUE(marked(stop, running));
  EXPECT_FALSE(marked({{"name", "ssh"}, {"state", "stopped"}, {"may_drop_connection", false}}, running));
  EXPECT_FALSE(marked({{"name", "ssh"}, {"enabled", false}}, running)) << "at boot only";
  const std::string other = replace_all(running, "Id=ssh.service", "Id=web.service");
  EXPECT_FALSE(marked({{"name", "web"}, {"state", "stopped"}}, other));
  EXPECT_TRUE(marked({{"name", "web"}, {"state", "stopped"}, {"may_drop_connection", true}}, other));
}

TEST(Service, ChangedUnitFilesAreReadFirst) {
  const std::string changed = replace_all(stopped_ssh(), "NeedDaemonReload=no", "NeedDaemonReload=yes");
  const Change change = plan({{"name", "ssh"}, {"state", "started"}}, changed).value();
  EXPECT_TRUE(starts_with(change.actions[0].script, "systemctl daemon-reload\n"));
  const Change off = plan({{"name", "ssh"}, {"state", "started"}, {"daemon_reload", false}}, changed).value();
  EXPECT_EQ(off.actions[0].script.find("daemon-reload"), std::string::npos);
}

TEST(Service, WhatCannotBeIsRefusedWithTheReason) {
  const auto masked = plan({{"name", "fstrim.timer"}, {"state", "started"}}, recorded("systemd_masked.txt"));
  EXPECT_EQ(masked.error().kind, ErrorKind::refused);
  EXPECT_EQ(masked.error().message, "fstrim.timer is masked");
  EXPECT_TRUE(plan({{"name", "fstrim.timer"}, {"state", "stopped"}}, recorded("systemd_masked.txt"))->empty());

  const auto fixed = plan({{"name", "systemd-journald"}, {"enabled", true}}, recorded("systemd_static.txt"));
  EXPECT_NE(fixed.error().message.find("has no [Install] section"), std::string::npos);
  EXPECT_TRUE(plan({{"name", "systemd-journald"}, {"enabled", false}}, recorded("systemd_static.txt"))->empty());

  const auto unknown = plan({{"name", "fstrimm.timer"}, {"state", "started"}}, recorded("systemd_unknown.txt"));
  EXPECT_EQ(unknown.error().message, "there is no unit fstrimm.timer");
  EXPECT_EQ(unknown.error().hint, "did you mean fstrim.timer?");
  // All of them end with .service: that makes none near.
  const std::string units = "Id=nosuch.service\nLoadState=not-found\nunit=rescue.service\nunit=nginx.service\n";
  const auto far = plan({{"name", "nosuch"}, {"state", "started"}}, units);
  EXPECT_EQ(far.error().hint.find("did you mean"), std::string::npos) << far.error().hint;
  EXPECT_EQ(plan({{"name", "ngnix"}, {"state", "started"}}, units).error().hint, "did you mean nginx.service?");

  EXPECT_EQ(plan("ssh", "manager=none\n").error().message, "this node has no systemd");
  EXPECT_EQ(plan("ssh", "manager=asleep\n").error().message, "systemd does not run on this node");
  const auto dead = kService.plan(inputs_of(kService, "ssh"), answers_of("unit", "", 1, "Failed to connect to bus"));
  EXPECT_EQ(dead.error().detail, "Failed to connect to bus");
}

TEST(Service, MistakesAreFoundBeforeAnythingIsContacted) {
  for (const char* name : {"", "-x", "a b", "a*"}) {
    EXPECT_THROW(inputs_of(kService, {{"name", name}, {"state", "started"}}), std::runtime_error) << name;
  }
  EXPECT_THROW(inputs_of(kService, {{"name", "ssh"}, {"state", "running"}}), std::runtime_error);
}

}  // namespace
}  // namespace millwright
