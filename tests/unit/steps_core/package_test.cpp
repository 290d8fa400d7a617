#include "steps/core/package.hpp"

#include <gtest/gtest.h>

#include "orchestrator/base/text.hpp"
#include "tests/unit/steps_core/real_shell.hpp"
#include "tests/unit/steps_core/recorded.hpp"

namespace millwright {
namespace {

using testing_tools::answers_of;
using testing_tools::inputs_of;
using testing_tools::recorded;

const PackageStep kPackage;

Result<Change> plan(const Value& given, const std::string& answer) {
  return kPackage.plan(inputs_of(kPackage, given), answers_of("packages", answer));
}

TEST(Package, InstallsOnlyWhatIsMissing) {
  const Change change = plan({{"name", {"hello", "tzdata"}}}, recorded("apt_absent_and_present.txt")).value();
  ASSERT_EQ(change.actions.size(), 1u);
  EXPECT_EQ(change.actions[0].title, "install hello 2.10-3");
  EXPECT_NE(change.actions[0].script.find("install -- hello\n"), std::string::npos);
  EXPECT_EQ(change.diff, "+ hello 2.10-3\n");
  EXPECT_EQ(change.outputs["versions"], (Value{{"tzdata", "2026f-0+deb12u1"}}));
}

TEST(Package, NothingToDoNamesTheVersion) {
  const Change change = plan("tzdata", "manager apt\nlists old\npackage tzdata ii 2026f-0+deb12u1 -\n").value();
  EXPECT_TRUE(change.empty());
  EXPECT_EQ(change.summary, "tzdata 2026f-0+deb12u1");
}

TEST(Package, AVersionIsTakenAsItIs) {
  const std::string answer = recorded("apt_version.txt");
  EXPECT_EQ(plan({{"name", "hello"}, {"version", "2.10-3"}}, answer)->actions[0].title, "install hello 2.10-3");
  EXPECT_NE(plan("hello=2.10*", answer)->actions[0].script.find("install -- 'hello=2.10*'\n"), std::string::npos);
  const auto other = plan({{"name", "hello"}, {"version", "2.12-1"}}, answer);
  EXPECT_EQ(other.error().message, "hello is not to be had in version 2.12-1");
  EXPECT_EQ(other.error().hint, "there are: 2.10-3");
  const std::string newer = "manager apt\nlists fresh\npackage hello ii 2.11-1 2.11-1\nversion hello 2.10-3\n";
  EXPECT_EQ(plan("hello=2.10*", newer)->summary, "hello 2.11-1 -> 2.10*");
}

TEST(Package, UnknownNamesGetTheNearestAndVirtualOnesTheirProviders) {
  const auto unknown = plan("hellow", recorded("apt_unknown.txt"));
  EXPECT_EQ(unknown.error().kind, ErrorKind::refused);
  EXPECT_EQ(unknown.error().message, "no package is called hellow");
  EXPECT_EQ(unknown.error().hint, "did you mean hello?");
  const auto virtual_one = plan("mail-transport-agent", recorded("apt_virtual.txt"));
  EXPECT_EQ(virtual_one.error().message, "mail-transport-agent is a virtual package");
  EXPECT_NE(virtual_one.error().hint.find("courier-mta, dma, esmtp-run, exim4-daemon-heavy"), std::string::npos);
}

TEST(Package, OldListsAreRefreshedBeforeANameIsCalledUnknown) {
  const std::string old = replace_all(recorded("apt_unknown.txt"), "lists fresh", "lists old");
  const Change change = plan("hellow", old).value();
  ASSERT_EQ(change.actions.size(), 2u);
  EXPECT_EQ(change.actions[0].title, "refresh the package lists");
  EXPECT_FALSE(change.actions[0].undo.empty());
  EXPECT_FALSE(plan({{"name", "hellow"}, {"update_cache", false}}, old));
}

TEST(Package, LatestUpgradesAndRefreshesWhenAsked) {
  const std::string upgradable = "manager apt\nlists old\npackage jq ii 1.6-2 1.6-3\n";
  const Change change = plan({{"name", "jq"}, {"state", "latest"}}, upgradable).value();
  EXPECT_EQ(change.summary, "jq 1.6-2 -> 1.6-3");
  EXPECT_EQ(change.diff, "- jq 1.6-2\n+ jq 1.6-3\n");
  EXPECT_EQ(change.actions.size(), 1u);
  const Value refreshing = {{"name", "jq"}, {"state", "latest"}, {"update_cache", true}};
  EXPECT_EQ(plan(refreshing, "manager apt\nlists old\npackage jq ii 1.6-3 1.6-3\n")->actions.size(), 2u);
  EXPECT_TRUE(plan(refreshing, "manager apt\nlists fresh\npackage jq ii 1.6-3 1.6-3\n")->empty());
}

TEST(Package, RemovalNamesWhatGoesAlong) {
  const Change change = plan({{"name", "libpam-systemd"}, {"state", "absent"}}, recorded("apt_remove.txt")).value();
  EXPECT_EQ(change.actions[0].title, "remove libpam-systemd");
  const std::string along = recorded("apt_remove.txt") + "takes dbus-user-session\n";
  const Change more = plan({{"name", "libpam-systemd"}, {"state", "absent"}}, along).value();
  EXPECT_EQ(more.summary, "remove libpam-systemd and what needs it: dbus-user-session");
  EXPECT_NE(more.diff.find("- dbus-user-session\n"), std::string::npos);
  for (const char* gone : {"package x - - -\n", "package x rc 1.0 -\n", "package x un - -\n"}) {
    EXPECT_TRUE(
        plan({{"name", "x1"}, {"state", "absent"}}, "manager apt\n" + replace_all(gone, " x ", " x1 "))->empty());
  }
}

TEST(Package, HeldAndBrokenSystemsAreRefusedOnlyWhenSomethingIsToBeDone) {
  const std::string held = "manager apt\nlists fresh\nheld jq\n";
  const auto refused = plan({{"name", "jq"}, {"state", "absent"}}, held + "package jq hi 1.6-2 -\n");
  EXPECT_EQ(refused.error().message, "jq is held at 1.6-2");
  EXPECT_FALSE(plan("jq=1.7", held + "package jq hi 1.6-2 1.7\nversion jq 1.7\n"));
  EXPECT_TRUE(plan({{"name", "jq"}, {"state", "latest"}}, held + "package jq hi 1.6-2 1.7\n")->empty());

  const std::string broken = "manager apt\nlists fresh\nbroken nginx iF\n";
  const auto stopped = plan("jq", broken + "package jq - - 1.6\n");
  EXPECT_EQ(stopped.error().message, "packages are half installed: nginx");
  EXPECT_NE(stopped.error().hint.find("dpkg --configure -a"), std::string::npos);
  EXPECT_TRUE(plan("jq", broken + "package jq ii 1.6 -\n")->empty());
  EXPECT_EQ(plan("jq", "manager apt\nlists fresh\ninterrupted\npackage jq - - 1.6\n").error().message,
            "dpkg was interrupted on this node");
}

TEST(Package, OtherPackageManagersAreNamed) {
  EXPECT_NE(plan("jq", "manager apk\n").error().message.find("the package manager here is apk"), std::string::npos);
  EXPECT_EQ(plan("jq", "manager none\n").error().message, "no package manager was found on this node");
  const auto failed = kPackage.plan(inputs_of(kPackage, "jq"), answers_of("packages", "", 2, "dpkg-query: error"));
  EXPECT_EQ(failed.error().detail, "dpkg-query: error");
}

TEST(Package, MistakesAreFoundBeforeAnythingIsContacted) {
  for (const Value& given : {Value{{"name", "Jq"}}, Value{{"name", "a b"}}, Value{{"name", "-y"}},
                             Value{{"name", "jq-"}}, Value{{"name", "$(id)"}}, Value{{"name", Value::array()}},
                             Value{{"name", {"jq", "nginx"}}, {"version", "1"}}}) {
    EXPECT_THROW(inputs_of(kPackage, given), std::runtime_error) << given;
  }
  EXPECT_NO_THROW(inputs_of(kPackage, {{"name", {"g++", "libc6:i386", "python3.11", "nginx=1.22.1-9+deb12u1"}}}));
}

}  // namespace
}  // namespace millwright
