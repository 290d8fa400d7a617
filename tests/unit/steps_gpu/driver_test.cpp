// Which driver gpu.driver chooses, and what it refuses. Names begin with the row of tests/data/gpu/cases.csv.
#include <gtest/gtest.h>

#include "steps/gpu/driver_choice.hpp"
#include "tests/unit/steps_core/real_shell.hpp"
#include "tests/unit/steps_gpu/host_tree.hpp"

namespace millwright {
namespace {

using gpu::DriverState;
using gpu::DriverWish;
using gpu::GpuFacts;
using testing_tools::HostTree;
using testing_tools::shipped_knowledge;

class GpuDriver : public testing::Test {
 protected:
  static GpuFacts host(std::initializer_list<const char*> devices, const std::string& kernel = "6.1.0-27-amd64",
                       const std::string& os = "debian") {
    const HostTree tree;
    int slot = 1;
    for (const char* device : devices) {
      tree.add({.address = "0000:0" + std::to_string(slot++) + ":00.0", .device = device, .driver = "vfio-pci"});
    }
    tree.write("/proc/sys/kernel/osrelease", kernel + "\n");
    tree.write("/etc/os-release", "ID=" + os + "\nVERSION_ID=\"12\"\n");
    return tree.facts();
  }

  // As driver_question answers on a Debian 12 with non-free, nothing installed.
  static DriverState bookworm(const std::string& kernel = "6.1.0-27-amd64") {
    return gpu::parse_driver_state("headers\t" + kernel +
                                   "\tyes\n"
                                   "package\tnvidia-kernel-dkms\t(none)\t535.261.03-1~deb12u1\n"
                                   "package\tnvidia-open-kernel-dkms\t(none)\t535.261.03-1~deb12u1\n"
                                   "package\tnvidia-smi\t(none)\t535.261.03-1~deb12u1\n"
                                   "package\tlibcuda1\t(none)\t535.261.03-1~deb12u1\n");
  }

  static DriverState noble() {
    std::string out = "headers\t6.8.0-50-generic\tyes\n";
    for (const char* branch : {"535", "570", "580"}) {
      for (const char* flavour : {"", "-open"}) {
        out += std::string("package\tnvidia-headless-") + branch + "-server" + flavour + "\t(none)\t" + branch +
               (std::string(branch) == "580" ? ".105.08" : ".158.01") + "-0ubuntu0.24.04.1\n";
      }
    }
    return gpu::parse_driver_state(out);
  }

  static std::string chosen(const GpuFacts& facts, const DriverState& state, const DriverWish& wish = {}) {
    const auto choice = gpu::choose_driver(facts, state, wish, shipped_knowledge());
    if (!choice) {
      EXPECT_EQ(choice.error().kind, ErrorKind::refused);
      EXPECT_FALSE(choice.error().hint.empty());
      return "refused: " + choice.error().message + " | " + choice.error().hint;
    }
    return choice->method + " " + choice->version + " " + choice->module_package;
  }
};

void expect_within(const std::string& text, std::initializer_list<const char*> parts) {
  for (const char* part : parts) EXPECT_NE(text.find(part), std::string::npos) << part << "\nis not in\n" << text;
}

TEST_F(GpuDriver, VersionsAndKernelsCompareByNumber) {
  EXPECT_EQ(gpu::driver_version_of("1:535.261.03-1~deb12u1"), "535.261.03");
  EXPECT_EQ(gpu::driver_version_of("580.95.05-0ubuntu0.24.04.2"), "580.95.05");
  EXPECT_EQ(gpu::driver_version_of(""), "");
  EXPECT_TRUE(gpu::version_at_least("6.17.2-1-pve", "6.17"));
  EXPECT_FALSE(gpu::version_at_least("6.8.12-10-pve", "6.17"));
  EXPECT_TRUE(gpu::version_at_least("6.14.0", "6.2"));
}

TEST_F(GpuDriver, DebiansBranchDecidesTheFlavour) {
  EXPECT_EQ(chosen(host({"0x2230", "0x2230"}), bookworm()), "debian 535.261.03 nvidia-kernel-dkms");
  DriverWish open;
  open.module = "open";
  EXPECT_EQ(chosen(host({"0x2230"}), bookworm(), open), "debian 535.261.03 nvidia-open-kernel-dkms");
}

TEST_F(GpuDriver, UbuntuTakesTheNewestBranchThatRunsTheGpus) {
  EXPECT_EQ(chosen(host({"0x2230"}, "6.8.0-50-generic", "ubuntu"), noble()),
            "ubuntu 580.105.08 nvidia-headless-580-server-open");
  DriverWish wish;
  wish.branch = "535";
  EXPECT_EQ(chosen(host({"0x2230"}, "6.8.0-50-generic", "ubuntu"), noble(), wish),
            "ubuntu 535.158.01 nvidia-headless-535-server");
  wish.branch = "999";
  expect_within(chosen(host({"0x2230"}, "6.8.0-50-generic", "ubuntu"), noble(), wish),
                {"refused: apt knows no package"});
}

TEST_F(GpuDriver, D01BlackwellNeedsTheOpenModule) {
  EXPECT_EQ(chosen(host({"0x2b85"}, "6.8.0-50-generic", "ubuntu"), noble()),
            "ubuntu 580.105.08 nvidia-headless-580-server-open");
  DriverWish wish;
  wish.module = "proprietary";
  expect_within(chosen(host({"0x2b85"}, "6.8.0-50-generic", "ubuntu"), noble(), wish),
                {"the proprietary module does not run blackwell GPUs", "getsolus/packages#5575", "module: open"});
  expect_within(chosen(host({"0x2b85"}), bookworm()),
                {"driver 535.261.03 does not run blackwell GPUs", "570, 575, 580"});
}

TEST_F(GpuDriver, D03PascalNeedsTheProprietaryModule) {
  EXPECT_EQ(chosen(host({"0x1bb3"}, "6.8.0-50-generic", "ubuntu"), noble()),
            "ubuntu 580.105.08 nvidia-headless-580-server");
  DriverWish wish;
  wish.module = "open";
  expect_within(chosen(host({"0x1bb3"}), bookworm(), wish),
                {"the open module does not run pascal GPUs", "module: proprietary"});
  expect_within(chosen(host({"0x1bb3", "0x2b85"}, "6.8.0-50-generic", "ubuntu"), noble()),
                {"no module runs all GPUs", "blackwell and pascal"});
}

TEST_F(GpuDriver, D04D05ADriverTooOldForAKernelIsRefused) {
  DriverState trixie = bookworm("6.17.13-2-pve");
  for (auto& [name, package] : trixie.packages) package.candidate = "550.163.01-2";
  expect_within(
      chosen(host({"0x2230"}, "6.17.13-2-pve"), trixie),
      {"driver 550.163.01 does not build for kernel 6.17.13-2-pve", "580.105.08", "open-gpu-kernel-modules#1143"});
  DriverState old = bookworm("6.14.0-1-pve");
  for (auto& [name, package] : old.packages) package.candidate = "535.230.02-1";
  expect_within(chosen(host({"0x2230"}, "6.14.0-1-pve"), old), {"anomixer/proxmox-vgpu-installer#18"});
}

// The kernel that boots next counts as much as the one that runs.
TEST_F(GpuDriver, D04TheKernelThatBootsNextCountsToo) {
  GpuFacts facts = host({"0x2230"});
  facts.host.next_kernel = "6.17.2-1-pve";
  DriverState state = bookworm();
  state.headers["6.17.2-1-pve"] = true;
  expect_within(chosen(facts, state), {"kernel 6.17.2-1-pve"});
}

TEST_F(GpuDriver, HeadersComeAlongOrAreMissed) {
  DriverState state = bookworm();
  state.headers["6.1.0-27-amd64"] = false;
  expect_within(chosen(host({"0x2230"}), state), {"headers of kernel 6.1.0-27-amd64 are not installed"});
  const DriverState more = gpu::parse_driver_state("package\tlinux-headers-6.1.0-27-amd64\t(none)\t6.1.115-1\n");
  state.header_packages = more.header_packages;
  const auto choice = gpu::choose_driver(host({"0x2230"}), state, {}, shipped_knowledge());
  ASSERT_TRUE(choice.has_value()) << choice.error().message;
  EXPECT_EQ(choice->packages.back(), "linux-headers-6.1.0-27-amd64");
}

TEST_F(GpuDriver, D07HalfInstalledPackagesAreRefused) {
  DriverState state = bookworm();
  state.half_installed = {"nvidia-dkms-580-open"};
  expect_within(chosen(host({"0x2230"}), state), {"half installed: nvidia-dkms-580-open", "dpkg --configure -a"});
}

TEST_F(GpuDriver, D08SecureBootStopsWithInstructions) {
  GpuFacts facts = host({"0x2230"});
  facts.host.secure_boot = true;
  DriverState state = bookworm();
  expect_within(chosen(facts, state), {"Secure Boot is on", "mokutil --import /var/lib/dkms/mok.pub", "console"});
  state.key_enrolled = true;
  EXPECT_EQ(chosen(facts, state), "debian 535.261.03 nvidia-kernel-dkms");
}

TEST_F(GpuDriver, D10AHoldCoversTheWholeFamily) {
  DriverWish wish;
  wish.hold = true;
  DriverState state = bookworm();
  for (auto& [name, package] : state.packages) package.installed = package.candidate;
  state.packages["nvidia-modprobe"] = {"535.161.07-1", "535.161.07-1"};
  state.packages["nvidia-persistenced"] = {"535.171.04-1", "535.171.04-1"};
  state.family = {{"nvidia-kernel-dkms", "535.261.03-1"}, {"libnvidia-ml1", "535.261.03-1"}};
  state.held = {"nvidia-kernel-dkms"};
  GpuFacts facts = host({"0x2230"});
  facts.on_disk.push_back({"nvidia", "6.1.0-27-amd64", "535.261.03", "NVIDIA", ""});
  const auto change = gpu::plan_driver(facts, state, wish, shipped_knowledge());
  ASSERT_TRUE(change.has_value()) << change.error().message;
  ASSERT_EQ(change->actions.size(), 1U);
  EXPECT_EQ(change->actions[0].title, "hold libnvidia-ml1");
  state.held.insert("libnvidia-ml1");
  EXPECT_TRUE(gpu::plan_driver(facts, state, wish, shipped_knowledge())->empty());
}

// As Debian 12 has them with 535.261.03 installed, and two other versions to be had.
DriverState installed_bookworm() {
  return gpu::parse_driver_state(
      "headers\t6.1.0-27-amd64\tyes\n"
      "package\tnvidia-kernel-dkms\t535.261.03-1\t550.163.01-2\n"
      "package\tnvidia-smi\t535.261.03-1\t550.163.01-2\n"
      "package\tlibcuda1\t535.261.03-1\t550.163.01-2\n"
      "package\tnvidia-modprobe\t535.161.07-1~deb12u1\t535.161.07-1~deb12u1\n"
      "package\tnvidia-persistenced\t535.171.04-1~deb12u1\t535.171.04-1~deb12u1\n"
      "family\tnvidia-kernel-dkms\t535.261.03-1\n"
      "family\tnvidia-smi\t535.261.03-1\n"
      "family\tlibcuda1\t535.261.03-1\n"
      "family\tlibnvidia-ml1\t535.261.03-1\n"
      "family\tnvidia-modprobe\t535.161.07-1~deb12u1\n"
      "family\tnvidia-persistenced\t535.171.04-1~deb12u1\n"
      "family\tnvidia-kernel-common\t20220217+3~deb12u1\n"
      "family\tnvidia-cuda-toolkit\t11.8.89~11.8.0-5~deb12u1\n"
      "available\tnvidia-kernel-dkms\t550.163.01-2\n"
      "available\tnvidia-kernel-dkms\t535.261.03-1\n"
      "available\tnvidia-smi\t550.163.01-2\n"
      "available\tlibcuda1\t550.163.01-2\n"
      "available\tlibnvidia-ml1\t550.163.01-2\n");
}

std::vector<std::string> titles_of(const Change& change) {
  std::vector<std::string> titles;
  for (const Action& action : change.actions) titles.push_back(action.title);
  return titles;
}

class GpuDriverVersions : public GpuDriver {
 protected:
  GpuDriverVersions() { built("535.261.03"); }
  void built(const std::string& version) { facts_.on_disk = {{"nvidia", "6.1.0-27-amd64", version, "NVIDIA", ""}}; }
  Result<Change> plan() const { return gpu::plan_driver(facts_, state_, wish_, shipped_knowledge()); }

  GpuFacts facts_ = host({"0x2230"});
  DriverState state_ = installed_bookworm();
  DriverWish wish_;
};

TEST_F(GpuDriverVersions, WhatIsInstalledStaysThoughANewerOneIsToBeHad) {
  const auto change = plan();
  ASSERT_TRUE(change.has_value()) << change.error().message;
  EXPECT_TRUE(change->empty()) << change->summary;
  EXPECT_EQ(change->outputs.at("version"), "535.261.03");
}

TEST_F(GpuDriverVersions, AllPackagesOfTheDriverMoveTogether) {
  wish_.version = "newest";
  facts_.nvidia_version = "535.261.03";
  const auto change = plan();
  ASSERT_TRUE(change.has_value()) << change.error().message;
  EXPECT_EQ(titles_of(*change),
            (std::vector<std::string>{"note which module is loaded",
                                      "install libcuda1 550.163.01-2, libnvidia-ml1 550.163.01-2, nvidia-kernel-dkms "
                                      "550.163.01-2, nvidia-smi 550.163.01-2",
                                      "build the module for 6.1.0-27-amd64", "load nvidia 550.163.01"}));
  expect_within(change->actions[1].script, {"nvidia-kernel-dkms=550.163.01-2", "--allow-downgrades"});
  expect_within(change->diff, {"- libnvidia-ml1 535.261.03-1\n+ libnvidia-ml1 550.163.01-2\n"});
  EXPECT_EQ(change->actions[1].script.find("nvidia-modprobe"), std::string::npos);
  EXPECT_EQ(change->outputs.at("branch"), "550");
}

TEST_F(GpuDriverVersions, DownIsTheSameAsUp) {
  for (auto& [package, version] : state_.family) {
    if (version == "535.261.03-1") version = "550.163.01-2";
  }
  for (const char* package : {"nvidia-smi", "libcuda1", "libnvidia-ml1"}) {
    state_.available[package].emplace_back("535.261.03-1");
  }
  built("550.163.01");
  wish_.version = "535.261.03";
  const auto change = plan();
  ASSERT_TRUE(change.has_value()) << change.error().message;
  expect_within(change->actions.at(0).script, {"nvidia-kernel-dkms=535.261.03-1", "libnvidia-ml1=535.261.03-1"});
  EXPECT_EQ(change->outputs.at("version"), "535.261.03");
}

TEST_F(GpuDriverVersions, AVersionThatAptDoesNotHaveIsRefused) {
  wish_.version = "570.1";
  expect_within(chosen(facts_, state_, wish_), {"refused: apt has no version 570.1", "madison"});
  // Of one package it is missing: half a driver is none.
  wish_.version = "550.163.01";
  state_.available.erase("libnvidia-ml1");
  expect_within(chosen(facts_, state_, wish_), {"libnvidia-ml1 535.261.03-1 is installed", "no 550.163.01 of it"});
}

TEST_F(GpuDriverVersions, AModuleInUseWaitsForTheReboot) {
  for (auto& [package, version] : state_.family) {
    if (version == "535.261.03-1") version = "550.163.01-2";
  }
  for (auto& [name, package] : state_.packages) package.installed = package.candidate;
  built("550.163.01");
  facts_.nvidia_version = "535.261.03";
  EXPECT_EQ(titles_of(*plan()), (std::vector<std::string>{"note which module is loaded", "load nvidia 550.163.01"}));
  facts_.host.reboot_required = true;
  const auto waiting = plan();
  EXPECT_TRUE(waiting->empty());
  EXPECT_EQ(waiting->outputs.at("needs_reboot"), true);
  expect_within(waiting->summary, {"535.261.03 is loaded until the host reboots"});
  facts_.host.reboot_required = false;
  wish_.reload = false;
  EXPECT_TRUE(plan()->empty());
  EXPECT_EQ(plan()->outputs.at("needs_reload"), true);
}

TEST_F(GpuDriverVersions, AHeldPackageThatWouldHaveToChangeIsRefusedUnlessItIsHeldAgain) {
  wish_.version = "newest";
  state_.held = {"nvidia-kernel-dkms"};
  expect_within(chosen(facts_, state_, wish_), {"nvidia-kernel-dkms is held at 535.261.03-1", "apt-mark unhold"});
  wish_.hold = true;
  const auto titles = titles_of(*plan());
  EXPECT_EQ(titles.front(), "let nvidia-kernel-dkms change");
  expect_within(titles.back(), {"hold ", "nvidia-kernel-dkms"});
}

TEST_F(GpuDriverVersions, GoneMeansEveryPackageOfTheDriverButNotCudasToolkit) {
  state_.held = {"nvidia-smi"};
  const auto change = gpu::plan_driver_removal(facts_, state_);
  ASSERT_TRUE(change.has_value()) << change.error().message;
  EXPECT_EQ(titles_of(*change),
            (std::vector<std::string>{"let nvidia-smi change",
                                      "remove libcuda1, libnvidia-ml1, nvidia-kernel-common, nvidia-kernel-dkms, "
                                      "nvidia-modprobe, nvidia-persistenced, nvidia-smi"}));
  expect_within(change->actions[1].script, {"purge"});
  facts_.functions.begin()->second.driver = "nvidia";
  expect_within(gpu::plan_driver_removal(facts_, state_).error().message, {"is run by nvidia"});
  EXPECT_TRUE(gpu::plan_driver_removal(facts_, bookworm())->empty());
}

TEST_F(GpuDriver, D12TwoSourcesAreNotMixed) {
  DriverState state = bookworm();
  state.nvidia_repo = true;
  DriverWish wish;
  wish.method = "debian";
  expect_within(chosen(host({"0x2230"}), state, wish), {"apt would mix the two", "method: nvidia-repo"});
  wish.method = "nvidia-repo";
  state.nvidia_repo = false;
  expect_within(chosen(host({"0x2230"}), state, wish), {"not set up on this node"});
}

TEST_F(GpuDriver, D15PackagesOfDifferentDriversAreRefused) {
  DriverState state = bookworm();
  state.family = {{"nvidia-kernel-dkms", "535.261.03-1"}, {"libnvidia-compute-550", "550.163.01-0ubuntu1"}};
  expect_within(chosen(host({"0x2230"}), state), {"different drivers are installed: 535.261.03, 550.163.01"});
}

TEST_F(GpuDriver, D21ADriverOfTheRunInstallerIsRefused) {
  DriverState state = bookworm();
  state.run_file = true;
  expect_within(chosen(host({"0x2230"}), state), {".run installer", "nvidia-uninstall"});
}

TEST_F(GpuDriver, InstallsBuildsAndIsDone) {
  const auto change = gpu::plan_driver(host({"0x2230"}), bookworm(), {}, shipped_knowledge());
  ASSERT_TRUE(change.has_value()) << change.error().message;
  ASSERT_EQ(change->actions.size(), 2U);
  expect_within(change->actions[0].title, {"install nvidia-kernel-dkms, nvidia-smi, libcuda1"});
  expect_within(change->actions[1].script, {"dkms autoinstall -k 6.1.0-27-amd64", "make.log"});
  EXPECT_EQ(change->outputs.at("version"), "535.261.03");
  for (const Action& action : change->actions) EXPECT_FALSE(action.undo.empty());
}

TEST_F(GpuDriver, AnUnknownGpuIsNotedRatherThanGuessed) {
  const auto choice = gpu::choose_driver(host({"0x3fff"}), bookworm(), {}, shipped_knowledge());
  ASSERT_TRUE(choice.has_value()) << choice.error().message;
  ASSERT_EQ(choice->notes.size(), 1U);
  expect_within(choice->notes[0], {"10de:3fff", "is not checked"});
}

TEST_F(GpuDriver, TheQuestionIsAnsweredByThisMachine) {
  testing_tools::RealShell shell;
  const Answer answer = shell.run(gpu::driver_question(shipped_knowledge()).script, "-eu");
  EXPECT_EQ(answer.exit_code, 0) << answer.err;
  EXPECT_TRUE(gpu::parse_driver_state(answer.out).apt);
}

}  // namespace
}  // namespace millwright
