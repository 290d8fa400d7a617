// `service` and `package` by the step contract on a real machine that may be changed: a lab node. tests/lab runs these
// with MW_TEST_NODE set to the command that runs a shell line there as root; elsewhere they are skipped.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "steps/core/package.hpp"
#include "steps/core/service.hpp"
#include "tests/unit/steps_core/real_shell.hpp"

namespace millwright {
namespace {

using testing_tools::inputs_of;
using testing_tools::RealShell;
using testing_tools::ShellOptions;

const PackageStep kPackage;
const ServiceStep kService;

class OnANode : public testing::Test {
 protected:
  void SetUp() override {
    const char* node = std::getenv("MW_TEST_NODE");
    if (node == nullptr) GTEST_SKIP() << "MW_TEST_NODE is not set";
    node_ = node;
  }
  RealShell shell(const std::string& fingerprint) { return RealShell({.remote = node_, .fingerprint = fingerprint}); }
  std::string node_;
};

class PackagesOnANode : public OnANode {
 protected:
  // Which packages are there in which version, and which of them by hand.
  RealShell packages() {
    return shell("dpkg-query -W -f '${Package} ${Version} ${db:Status-Abbrev}\\n'; apt-mark showmanual");
  }
};

TEST_F(PackagesOnANode, InstallsWithDependenciesAndTakesExactlyThoseBack) {
  RealShell node = packages();
  const Change change = node.expect_contract(kPackage, {{"name", {"jq", "hello"}}});
  EXPECT_NE(change.summary.find("jq "), std::string::npos) << change.summary;
}

TEST_F(PackagesOnANode, RemovesAndPutsBack) {
  RealShell node = packages();
  node.apply(kPackage, inputs_of(kPackage, "hello"));
  const Change change = node.expect_contract(kPackage, {{"name", "hello"}, {"state", "absent"}});
  EXPECT_EQ(change.summary, "remove hello");
  node.apply(kPackage, inputs_of(kPackage, {{"name", "hello"}, {"state", "absent"}}));
}

TEST_F(PackagesOnANode, LatestWithFreshListsConverges) {
  RealShell node = packages();
  const Inputs inputs = inputs_of(kPackage, {{"name", "tzdata"}, {"state", "latest"}, {"update_cache", true}});
  node.apply(kPackage, inputs);
  const auto again = node.plan(kPackage, inputs);
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_TRUE(again->empty()) << again->summary;
}

TEST_F(PackagesOnANode, NamesWhatIsNotThere) {
  RealShell node = packages();
  node.apply(kPackage, inputs_of(kPackage, {{"name", "jq"}, {"state", "latest"}, {"update_cache", true}}));
  const auto unknown = node.plan(kPackage, inputs_of(kPackage, "hellow"));
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().message, "no package is called hellow");
  EXPECT_EQ(unknown.error().hint, "did you mean hello?");
  const auto old = node.plan(kPackage, inputs_of(kPackage, {{"name", "hello"}, {"version", "1.0-1"}}));
  ASSERT_FALSE(old);
  EXPECT_EQ(old.error().message, "hello is not to be had in version 1.0-1");
  EXPECT_NE(old.error().hint.find("there are: 2."), std::string::npos) << old.error().hint;
  const auto virtual_one = node.plan(kPackage, inputs_of(kPackage, "mail-transport-agent"));
  ASSERT_FALSE(virtual_one);
  EXPECT_EQ(virtual_one.error().message, "mail-transport-agent is a virtual package");
}

TEST_F(PackagesOnANode, HeldPackagesStay) {
  RealShell node = packages();
  node.apply(kPackage, inputs_of(kPackage, "hello"));
  node.run("apt-mark hold hello", "-eu");
  const auto refused = node.plan(kPackage, inputs_of(kPackage, {{"name", "hello"}, {"state", "absent"}}));
  node.run("apt-mark unhold hello; apt-get -y purge hello", "-eu");
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().hint.find("apt-mark unhold hello"), std::string::npos);
}

TEST_F(PackagesOnANode, UndoRefusesWhenALaterPackageNeedsIt) {
  RealShell node = packages();
  node.run("apt-get -y purge jq libjq1 libonig5", "-eu");
  const auto acted = node.apply(kPackage, inputs_of(kPackage, "libonig5"));
  ASSERT_EQ(acted.change.actions.empty(), false);
  node.run("apt-get -y install --no-install-recommends jq", "-eu");
  const std::size_t last = acted.change.actions.size() - 1;
  const Answer said = node.undo(acted.change.actions[last], acted.save_dirs[last]);
  EXPECT_EQ(said.exit_code, kUndoRefused);
  EXPECT_NE(said.err.find("was installed since and needs"), std::string::npos) << said.err;
  node.run("apt-get -y purge jq libjq1 libonig5", "-eu");
}

class ServicesOnANode : public OnANode {
 protected:
  void SetUp() override {
    OnANode::SetUp();
    if (IsSkipped()) return;
    RealShell node = services();
    const auto unit = [&node](const std::string& name, const std::string& body) {
      const std::string text =
          "[Unit]\nDescription=test\n[Service]\n" + body + "[Install]\nWantedBy=multi-user.target\n";
      const Answer made = node.run("cat >/etc/systemd/system/" + name + ".service <<'EOF'\n" + text + "EOF\n", "-eu");
      ASSERT_TRUE(made.ok()) << made.err;
    };
    unit("mw-good", "ExecStart=/bin/sleep infinity\n");
    unit("mw-bad", "ExecStart=/bin/sh -c 'echo no such GPU >&2; exit 3'\n");
    unit("mw-once", "Type=oneshot\nExecStart=/bin/true\n");
    node.run("systemctl daemon-reload", "-eu");
  }
  void TearDown() override {
    if (IsSkipped()) return;
    RealShell node = services();
    node.run(
        "systemctl unmask mw-good; systemctl disable --now mw-good mw-bad mw-once; "
        "systemctl reset-failed mw-bad; rm -f /etc/systemd/system/mw-*.service; systemctl daemon-reload",
        "");
  }
  RealShell services() {
    return shell("for u in mw-good mw-bad mw-once; do systemctl show -p Id,ActiveState,UnitFileState $u; done");
  }
};

TEST_F(ServicesOnANode, StartsAndEnablesAndTakesItBack) {
  RealShell node = services();
  const Change change = node.expect_contract(kService, {{"name", "mw-good"}, {"state", "started"}, {"enabled", true}});
  EXPECT_EQ(change.summary, "mw-good.service disabled -> enabled, mw-good.service started");
  node.apply(kService, inputs_of(kService, {{"name", "mw-good"}, {"state", "started"}, {"enabled", true}}));
  node.expect_contract(kService, {{"name", "mw-good.service"}, {"state", "stopped"}, {"enabled", false}});
}

TEST_F(ServicesOnANode, AFailingUnitComesBackWithItsLastLines) {
  RealShell node = services();
  const auto change = node.plan(kService, inputs_of(kService, {{"name", "mw-bad"}, {"state", "started"}}));
  ASSERT_TRUE(change);
  const Answer answer = node.act(change->actions[0], node.new_save_dir());
  if (answer.ok()) {  // a simple unit counts as started before its program ends; asking again finds out
    const auto again = node.plan(kService, inputs_of(kService, {{"name", "mw-bad"}, {"state", "started"}}));
    EXPECT_FALSE(again->empty());
    return;
  }
  EXPECT_NE(answer.err.find("mw-bad.service failed (result: exit-code)"), std::string::npos) << answer.err;
  EXPECT_NE(answer.err.find("no such GPU"), std::string::npos) << answer.err;
}

TEST_F(ServicesOnANode, AOneshotThatEndsIsNoFailure) {
  RealShell node = services();
  const auto acted = node.apply(kService, inputs_of(kService, {{"name", "mw-once"}, {"state", "started"}}));
  EXPECT_EQ(acted.change.verification, Verification::exit_status);
}

TEST_F(ServicesOnANode, RestartKeepsItRunningAlsoAfterUndo) {
  RealShell node = services();
  node.apply(kService, inputs_of(kService, {{"name", "mw-good"}, {"state", "started"}}));
  const std::string pid = node.run("systemctl show -p MainPID mw-good", "").out;
  const auto acted = node.apply(kService, inputs_of(kService, {{"name", "mw-good"}, {"state", "restarted"}}));
  EXPECT_NE(node.run("systemctl show -p MainPID mw-good", "").out, pid);
  EXPECT_EQ(node.undo(acted), std::vector<int>{0});
  EXPECT_TRUE(node.run("systemctl is-active mw-good", "").ok());
}

TEST_F(ServicesOnANode, ChangedUnitFilesAreReadAgainFirst) {
  RealShell node = services();
  node.apply(kService, inputs_of(kService, {{"name", "mw-good"}, {"state", "started"}}));
  node.run("sed -i 's/Description=test/Description=new/' /etc/systemd/system/mw-good.service", "-eu");
  const Inputs restart = inputs_of(kService, {{"name", "mw-good"}, {"state", "restarted"}});
  const auto acted = node.apply(kService, restart);
  EXPECT_EQ(acted.change.actions[0].title, "read changed unit files again, restart mw-good.service");
  EXPECT_NE(node.run("systemctl show -p Description mw-good", "").out.find("new"), std::string::npos);
}

TEST_F(ServicesOnANode, UnknownAndMaskedUnitsAreRefused) {
  RealShell node = services();
  const auto unknown = node.plan(kService, inputs_of(kService, {{"name", "mw-goood"}, {"state", "started"}}));
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().message, "there is no unit mw-goood");
  EXPECT_EQ(unknown.error().hint, "did you mean mw-good.service?");
  node.run("mv /etc/systemd/system/mw-good.service /run/; systemctl mask mw-good", "");
  const auto masked = node.plan(kService, inputs_of(kService, {{"name", "mw-good"}, {"state", "started"}}));
  node.run("systemctl unmask mw-good; mv /run/mw-good.service /etc/systemd/system/; systemctl daemon-reload", "");
  ASSERT_FALSE(masked);
  EXPECT_EQ(masked.error().message, "mw-good.service is masked");
}

TEST_F(ServicesOnANode, StaticUnitsCannotBeEnabled) {
  RealShell node = services();
  const auto refused = node.plan(kService, inputs_of(kService, {{"name", "systemd-journald"}, {"enabled", true}}));
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("has no [Install] section"), std::string::npos);
}

}  // namespace
}  // namespace millwright
