// What gpu.* renders is POSIX sh, and its writes keep their deadline: on the machine's own shell.
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>

#include <sys/stat.h>
#include <unistd.h>

#include "steps/gpu/bind_script.hpp"
#include "steps/gpu/facts_script.hpp"
#include "tests/unit/steps_core/real_shell.hpp"
#include "tests/unit/steps_gpu/host_tree.hpp"

namespace millwright {
namespace {

namespace fs = std::filesystem;
using testing_tools::HostTree;
using testing_tools::RealShell;

std::vector<std::string> rendered() {
  const std::vector<gpu::Move> moves = {{"0000:01:00.0", "nvidia", "vfio-pci"}, {"0000:01:00.1", "none", "none"}};
  gpu::BindWish wish;
  wish.driver = "vfio-pci";
  const Action bind = gpu::bind_action(moves, wish);
  const HostTree tree;
  gpu::BootPlan boot;
  boot.edits = {{"/etc/modprobe.d/a b.conf", "it's\n", "x\n"}, {"/etc/default/grub", "10de:2230\n", std::nullopt}};
  boot.initramfs = boot.menu = true;
  const Action files = gpu::boot_action(tree.facts(), boot, "why", "");
  return {gpu::facts_script({}), bind.save, bind.script, bind.undo, files.save, files.script, files.undo};
}

TEST(GpuScripts, AreReadByEveryShellAndShellcheck) {
  const fs::path dir = fs::path(testing::TempDir()) / ("mw-gpu-scripts-" + std::to_string(::getpid()));
  fs::create_directories(dir);
  int number = 0;
  for (const std::string& script : rendered()) std::ofstream(dir / (std::to_string(++number) + ".sh")) << script;
  const auto has = [](const std::string& tool) {
    return std::system(("command -v " + tool + " >/dev/null").c_str()) == 0;
  };
  for (const std::string shell : {"dash", "bash --posix", "busybox sh"}) {
    if (!has(shell.substr(0, shell.find(' ')))) continue;
    for (const auto& entry : fs::directory_iterator(dir)) {
      EXPECT_EQ(std::system((shell + " -n " + entry.path().string()).c_str()), 0) << shell;
    }
  }
  // Variables of the prelude and of loops that only some actions use are no mistake.
  if (has("shellcheck")) {
    EXPECT_EQ(std::system(("shellcheck -s sh -S warning -e SC2034 '" + dir.string() + "'/*.sh").c_str()), 0);
  }
  fs::remove_all(dir);
}

// A host whose kernel takes a write and does nothing, or never ends: as far as files and a fifo can play it.
class BindScript : public testing::Test {
 protected:
  void SetUp() override {
    tree_.add_a6000("0000:01:00", 17, "", "");
    wish_.driver = "none";
    wish_.root = tree_.root().string();
    wish_.unbind_deadline = std::chrono::seconds(1);
    wish_.bind_deadline = std::chrono::seconds(1);
  }
  void drive(const std::string& driver) const {
    tree_.link("/sys/bus/pci/devices/0000:01:00.0/driver", (tree_.root() / "sys/bus/pci/drivers" / driver).string());
  }
  Answer act(const Action& action) {
    const fs::path save = shell_.new_save_dir();
    EXPECT_EQ(shell_.run(action.save, "-eu", save).exit_code, 0);
    return shell_.run(action.script, "-eu", save);
  }
  RealShell shell_;
  HostTree tree_;
  gpu::BindWish wish_;
  const std::vector<gpu::Move> moves_ = {{"0000:01:00.0", "vfio-pci", "none"}};
};

// V01: the write into unbind that never ends.
TEST_F(BindScript, V01AnUnbindThatNeverEndsIsLeftAloneAndMarksTheHost) {
  tree_.write("/sys/bus/pci/drivers/vfio-pci/bind", "");
  const std::string unbind = tree_.root() / "sys/bus/pci/drivers/vfio-pci/unbind";
  ASSERT_EQ(::mkfifo(unbind.c_str(), 0600), 0);  // opening it waits for a reader that never comes
  drive("vfio-pci");
  wish_.persist = gpu::Persist::yes;
  const Answer late = act(gpu::bind_action(moves_, wish_));
  EXPECT_EQ(late.exit_code, 0) << late.err;
  EXPECT_NE(late.err.find("unbinding 0000:01:00.0 did not end in 1 s: the host needs a reboot"), std::string::npos)
      << late.err;
  EXPECT_EQ(tree_.read("/run/millwright-gpu/stuck"), "0000:01:00.0 none\n");
  EXPECT_TRUE(fs::exists(tree_.root() / "run/reboot-required"));
  wish_.persist = gpu::Persist::no;
  EXPECT_EQ(act(gpu::bind_action(moves_, wish_)).exit_code, 1);  // nothing would bring it about at the next boot
}

TEST_F(BindScript, AHolderThatCameAfterTheCheckIsNamedBeforeAnythingIsTouched) {
  tree_.write("/sys/bus/pci/drivers/vfio-pci/unbind", "");
  drive("vfio-pci");
  tree_.add_process(4711, "kvm", "/dev/vfio/17");
  const Answer held = act(gpu::bind_action(moves_, wish_));
  EXPECT_EQ(held.exit_code, 1);
  EXPECT_NE(held.err.find("in use: process 4711 (kvm) has /dev/vfio/17"), std::string::npos) << held.err;
  EXPECT_EQ(tree_.read("/sys/bus/pci/devices/0000:01:00.0/driver_override"), "(null)\n");
}

// V06: what does not answer is not touched.
TEST_F(BindScript, V06ADeviceThatDoesNotWakeUpIsAnError) {
  drive("vfio-pci");
  tree_.write("/sys/bus/pci/devices/0000:01:00.0/config", "\xff\xff\xff\xff");
  const Answer gone = act(gpu::bind_action(moves_, wish_));
  EXPECT_EQ(gone.exit_code, 1);
  EXPECT_NE(gone.err.find("does not answer on the bus"), std::string::npos) << gone.err;
  EXPECT_EQ(tree_.read("/sys/bus/pci/devices/0000:01:00.0/driver_override"), "(null)\n");
}

}  // namespace
}  // namespace millwright
