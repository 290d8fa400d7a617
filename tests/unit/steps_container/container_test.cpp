#include <gtest/gtest.h>

#include "steps/container/lxc_config.hpp"
#include "steps/container/register.hpp"
#include "steps/contract/step.hpp"

namespace millwright {
namespace {

class ContainerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    register_container_steps(registry_);
    step_ = registry_.find_converging("container");
    ASSERT_NE(step_, nullptr);
  }

  Inputs inputs(Value given) {
    auto checked = check_inputs(step_->signature(), given);
    EXPECT_TRUE(checked.has_value());
    return Inputs(checked.value_or(Value::object()));
  }

  // A node of the lab as it answers before anything was done.
  static Answers fresh() {
    Answers out;
    out.set("tools", {0, "lxc\nmmdebstrap\nnftables\n", ""});
    out.set("container", {0, "absent\n", ""});
    out.set("config", {0, "", ""});
    out.set("host", {0, "apparmor \ntmpfs\n", ""});
    out.set("bridge", {0, "down\n", ""});
    out.set("others", {0, "", ""});
    out.set("routes", {0, "10.211.7.10/24\n10.211.7.0/24\n127.0.0.1/8\n", ""});
    return out;
  }

  static std::vector<std::string> titles(const Change& change) {
    std::vector<std::string> out;
    for (const Action& action : change.actions) out.push_back(action.title);
    return out;
  }

  StepRegistry registry_;
  const StepKind* step_ = nullptr;
};

TEST_F(ContainerTest, AFreshNodeGetsToolsBridgeRootConfigurationAndAStart) {
  const auto change = step_->plan(inputs({{"name", "llm"}}), fresh());
  ASSERT_TRUE(change.has_value()) << change.error().message;
  EXPECT_EQ(titles(*change),
            (std::vector<std::string>{"install lxc, mmdebstrap, nftables", "bring up bridge mwbr0 (10.213.0.0/24, NAT)",
                                      "make the root file system of llm from bookworm", "configure container llm",
                                      "start container llm"}));
  EXPECT_EQ(change->outputs.at("node"), Value({{"backend", "lxc"}, {"id", "llm"}}));
  EXPECT_EQ(change->outputs.at("address"), "10.213.0.2");
  for (const Action& action : change->actions) EXPECT_FALSE(action.undo.empty()) << action.title;
}

TEST_F(ContainerTest, WhatWasMadeIsAsWanted) {
  const Inputs given = inputs({{"name", "llm"}});
  const auto first = step_->plan(given, fresh());
  ASSERT_TRUE(first.has_value());
  Answers after = fresh();
  after.set("tools", {0, "", ""});
  after.set("bridge", {0, "up\n10.213.0.\n", ""});
  after.set("config", {0, *first->actions[3].files[0].content, ""});
  const std::string script = first->actions[2].script;
  const std::size_t at = script.rfind("printf '%s\\n' ");
  const std::string digest = script.substr(at + 14, 16);
  after.set("container", {0, "RUNNING\nrootfs\n" + digest + "\n", ""});
  const auto again = step_->plan(given, after);
  ASSERT_TRUE(again.has_value()) << again.error().message;
  EXPECT_TRUE(again->empty()) << titles(*again).front();
  EXPECT_EQ(again->outputs, first->outputs);

  after.set("container", {0, "STOPPED\nrootfs\n" + digest + "\n", ""});
  EXPECT_EQ(titles(*step_->plan(given, after)), std::vector<std::string>{"start container llm"});
  const auto stopped = step_->plan(inputs({{"name", "llm"}, {"state", "stopped"}}), after);
  EXPECT_TRUE(stopped->empty());
  const auto absent = step_->plan(inputs({{"name", "llm"}, {"state", "absent"}}), after);
  ASSERT_EQ(absent->actions.size(), 1U);
  EXPECT_TRUE(absent->actions[0].undo.empty());

  after.set("container", {0, "RUNNING\nrootfs\n" + digest + "\n", ""});
  const auto more = step_->plan(inputs({{"name", "llm"}, {"memory", "2GiB"}}), after);
  EXPECT_EQ(titles(*more), std::vector<std::string>{"configure container llm"});
  EXPECT_NE(more->diff.find("+ lxc.cgroup.memory.limit_in_bytes = 2147483648"), std::string::npos);
  EXPECT_NE(more->actions[0].script.find("lxc-stop"), std::string::npos);
}

TEST_F(ContainerTest, SomeoneElsesContainerIsRefused) {
  Answers answers = fresh();
  answers.set("container", {0, "RUNNING\nrootfs\n", ""});
  answers.set("config", {0, "lxc.uts.name = llm\n", ""});
  const auto change = step_->plan(inputs({{"name", "llm"}}), answers);
  ASSERT_FALSE(change.has_value());
  EXPECT_EQ(change.error().kind, ErrorKind::refused);
}

TEST_F(ContainerTest, AnotherImageIsRefused) {
  Answers answers = fresh();
  answers.set("container", {0, "RUNNING\nrootfs\n0123456789abcdef\n", ""});
  const auto change = step_->plan(inputs({{"name", "llm"}}), answers);
  ASSERT_FALSE(change.has_value());
  EXPECT_NE(change.error().message.find("another image"), std::string::npos);
}

TEST_F(ContainerTest, WrongInputsAreNamed) {
  const auto errors =
      step_->check(inputs({{"name", "a b"}, {"bridge", "vmbr0"}, {"image", {{"rootfs", "/none.tar"}}}}));
  ASSERT_EQ(errors.size(), 4U);
  EXPECT_EQ(errors[0].detail, "name");
  EXPECT_EQ(errors[3].detail, "address");
}

TEST(LxcConfig, SubnetsThatAnythingOverlapsAreSkipped) {
  EXPECT_EQ(free_subnet(""), 0);
  EXPECT_EQ(free_subnet("10.213.0.5/24\n"), 1);
  EXPECT_EQ(free_subnet("10.213.0.0/23\n"), 2);
  EXPECT_EQ(free_subnet("10.213.0.0/16\n"), std::nullopt);
  EXPECT_EQ(free_subnet("default via 192.0.2.1 dev eth0\n10.213.0.77 dev x\n"), 1);
}

TEST(LxcConfig, HostsAreTakenFromTheBottom) {
  EXPECT_EQ(free_host("10.213.0.", ""), 2);
  EXPECT_EQ(free_host("10.213.0.", "10.213.0.2/24\n10.213.0.4/24\n"), 3);
  EXPECT_EQ(free_host("10.213.0.", "10.213.0.12/24\n"), 2);
}

}  // namespace
}  // namespace millwright
