// Boot files: what they claim, and how they change, line by line.
#include <gtest/gtest.h>

#include "steps/gpu/boot_files.hpp"
#include "steps/gpu/boot_lines.hpp"
#include "tests/unit/steps_gpu/host_tree.hpp"

namespace millwright {
namespace {

using gpu::BootPlan;
using testing_tools::HostTree;

TEST(BootLines, ModprobeLinesAreJoinedAndCommentsSkipped) {
  const auto lines =
      gpu::modprobe_lines("# options vfio-pci ids=1:2\n\noptions vfio-pci \\\n  ids=10DE:2230,10de:1aef:0000:1459\n");
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_TRUE(lines[0].words.empty());
  EXPECT_EQ(gpu::vfio_ids_of(lines[2]), (std::vector<std::string>{"10de:2230", "10de:1aef"}));
  EXPECT_EQ(lines[2].text, "options vfio-pci \\\n  ids=10DE:2230,10de:1aef:0000:1459\n");
}

std::string without(const std::string& line, const std::set<std::string>& ids) {
  return gpu::without_ids(gpu::modprobe_lines(line + "\n")[0], ids);
}

TEST(BootLines, IdsGoAndTheRestStays) {
  EXPECT_EQ(without("options vfio-pci ids=10de:2230,8086:1521 disable_vga=1", {"10de:2230"}),
            "options vfio-pci ids=8086:1521 disable_vga=1\n");
  EXPECT_EQ(without("options vfio-pci ids=10de:2230,10DE:1AEF disable_vga=1", {"10de:2230", "10de:1aef"}), "");
  EXPECT_EQ(without("options vfio_pci ids=10de:2230 disable_idle_d3=1", {"10de:2230"}),
            "options vfio_pci disable_idle_d3=1\n");
}

TEST(BootLines, CommandLinesChangeOnlyWhereTheyMust) {
  const std::string grub =
      "# vfio-pci.ids=10de:2230 is a comment\nGRUB_CMDLINE_LINUX_DEFAULT=\"quiet  intel_iommu=on "
      "vfio-pci.ids=10de:2230,10de:1aef video=efifb:off\"\nGRUB_CMDLINE_LINUX=\"modprobe.blacklist=nouveau,nvidia\"\n";
  EXPECT_EQ(gpu::clean_command_line(grub, {"10de:2230", "10de:1aef"}, {"nvidia"}),
            "# vfio-pci.ids=10de:2230 is a comment\nGRUB_CMDLINE_LINUX_DEFAULT=\"quiet  intel_iommu=on "
            "video=efifb:off\"\nGRUB_CMDLINE_LINUX=\"modprobe.blacklist=nouveau\"\n");
  EXPECT_EQ(gpu::clean_command_line("vfio-pci.ids=10de:2230 quiet\n", {"10de:2230"}, {}), "quiet\n");
  EXPECT_EQ(gpu::clean_command_line("root=x vfio_pci.ids=10DE:2230,8086:1521\n", {"10de:2230"}, {}),
            "root=x vfio_pci.ids=8086:1521\n");
  EXPECT_EQ(gpu::clean_command_line(grub, {}, {}), grub);
}

// Two A6000, and a Debian with initramfs-tools and GRUB.
class BootFiles : public testing::Test {
 protected:
  void SetUp() override {
    tree_.add_a6000("0000:01:00", 17, "vfio-pci", "vfio-pci");
    tree_.add_a6000("0000:02:00", 18, "vfio-pci", "vfio-pci");
    tree_.write("/usr/sbin/update-initramfs", "#!/bin/sh\n", 0755);
    tree_.write("/usr/sbin/update-grub", "#!/bin/sh\n", 0755);
    tree_.write("/boot/initrd.img-6.8.12-10-pve", "x");
    tree_.write("/boot/grub/grub.cfg", "menuentry 'a' {\n\tlinux /boot/vmlinuz-6.8.12-10-pve root=x quiet\n}\n");
  }

  void fresh_initramfs() const {
    std::filesystem::last_write_time(tree_.root() / "boot/initrd.img-6.8.12-10-pve",
                                     std::filesystem::file_time_type::clock::now() + std::chrono::hours(1));
  }

  BootPlan plan(const std::string& driver, std::vector<std::string> devices) const {
    if (devices.empty()) devices = {"0000:01:00.0", "0000:01:00.1", "0000:02:00.0", "0000:02:00.1"};
    fresh_initramfs();
    return gpu::plan_boot_files(tree_.facts(), {driver, devices});
  }

  // Does what the plan says, so that planning again finds nothing.
  void carry_out(const BootPlan& boot) const {
    for (const gpu::FileEdit& one : boot.edits) {
      if (one.after) {
        tree_.write(one.path, *one.after);
      } else {
        std::filesystem::remove(tree_.root() / one.path.substr(1));
      }
    }
  }

  static std::string after(const BootPlan& boot, const std::string& path) {
    for (const gpu::FileEdit& one : boot.edits) {
      if (one.path == path) return one.after.value_or("gone");
    }
    return "as it was";
  }

  HostTree tree_;
  const std::vector<std::string> first_ = {"0000:01:00.0", "0000:01:00.1"};
};

// V21: the stale line of a passthrough guide, in modprobe.d, in the command line and in driverctl.
TEST_F(BootFiles, V21StaleClaimsAreFoundEverywhereAndTakenOut) {
  tree_.write("/etc/modprobe.d/vfio.conf",
              "options vfio-pci ids=10de:2230,10de:1aef disable_vga=1\nsoftdep nvidia pre: vfio-pci\n");
  tree_.write("/etc/modprobe.d/blacklist.conf",
              "blacklist nouveau\nblacklist nvidia\nblacklist nvidiafb\nblacklist pcspkr\n");
  tree_.write("/etc/modprobe.d/no-nvidia.conf", "install nvidia /bin/false\n");
  tree_.write("/etc/driverctl.d/pci-0000:01:00.0", "vfio-pci\n");
  tree_.write("/etc/default/grub", "GRUB_CMDLINE_LINUX=\"quiet vfio-pci.ids=10de:2230\"\n");
  const BootPlan boot = plan("nvidia", {});
  EXPECT_EQ(after(boot, "/etc/modprobe.d/vfio.conf"), "softdep nvidia pre: vfio-pci\n");
  EXPECT_EQ(after(boot, "/etc/modprobe.d/blacklist.conf"), "blacklist nouveau\nblacklist nvidiafb\nblacklist pcspkr\n");
  EXPECT_EQ(after(boot, "/etc/modprobe.d/no-nvidia.conf"), "");
  EXPECT_EQ(after(boot, "/etc/driverctl.d/pci-0000:01:00.0"), "gone");
  EXPECT_EQ(after(boot, "/etc/default/grub"), "GRUB_CMDLINE_LINUX=\"quiet\"\n");
  EXPECT_TRUE(boot.initramfs);
  EXPECT_TRUE(boot.menu);
  carry_out(boot);
  EXPECT_TRUE(plan("nvidia", {}).empty());
}

TEST_F(BootFiles, V21AnInitramfsOlderThanTheFilesIsMadeAgain) {
  tree_.write("/etc/modprobe.d/mine.conf", "blacklist nouveau\n");
  EXPECT_TRUE(plan("nvidia", {}).empty());
  std::filesystem::last_write_time(tree_.root() / "boot/initrd.img-6.8.12-10-pve",
                                   std::filesystem::file_time_type::clock::now() - std::chrono::hours(1));
  const BootPlan boot = gpu::plan_boot_files(tree_.facts(), {"nvidia", first_});
  EXPECT_TRUE(boot.edits.empty());
  EXPECT_TRUE(boot.initramfs);
}

TEST_F(BootFiles, V21AMenuOlderThanItsFilesIsMadeAgain) {
  tree_.write("/etc/modprobe.d/mine.conf", "blacklist nouveau\n");
  tree_.write("/boot/grub/grub.cfg",
              "menuentry 'a' {\n\tlinux /boot/vmlinuz-6.8.12-10-pve vfio-pci.ids=10de:2230\n}\n");
  const BootPlan boot = plan("nvidia", {});
  EXPECT_TRUE(boot.edits.empty());
  EXPECT_TRUE(boot.menu);
}

// V12: ids cannot tell two equal cards apart.
TEST_F(BootFiles, V12OneOfTwoIdenticalGpusIsNamedByAddress) {
  const BootPlan boot = plan("vfio-pci", first_);
  const std::string rules = after(boot, gpu::kOwnRules);
  EXPECT_NE(rules.find("KERNEL==\"0000:01:00.0\", ATTR{driver_override}=\"vfio-pci\""), std::string::npos) << rules;
  EXPECT_NE(rules.find("0000:01:00.1"), std::string::npos);
  EXPECT_EQ(rules.find("0000:02:00"), std::string::npos);
  EXPECT_EQ(after(boot, gpu::kOwnModprobe).find("ids="), std::string::npos);
  EXPECT_NE(after(boot, gpu::kOwnHook).find(gpu::kOwnRules), std::string::npos);
  carry_out(boot);
  EXPECT_TRUE(plan("vfio-pci", first_).empty());
}

// V12 the other way: taking one out of an id leaves its twin where it is.
TEST_F(BootFiles, V12TheTwinOfOneThatLeavesStaysOnVfio) {
  tree_.write("/etc/modprobe.d/vfio.conf", "options vfio-pci ids=10de:2230,10de:1aef\n");
  const BootPlan boot = plan("nvidia", first_);
  EXPECT_EQ(after(boot, "/etc/modprobe.d/vfio.conf"), "");
  const std::string rules = after(boot, gpu::kOwnRules);
  EXPECT_NE(rules.find("0000:02:00.0"), std::string::npos);
  EXPECT_EQ(rules.find("0000:01:00"), std::string::npos);
  carry_out(boot);
  EXPECT_TRUE(plan("nvidia", first_).empty());
}

TEST_F(BootFiles, AllOfAnIdAreNamedByIdAndLoadedEarly) {
  const BootPlan boot = plan("vfio-pci", {});
  EXPECT_NE(after(boot, gpu::kOwnModprobe).find("options vfio-pci ids=10de:1aef,10de:2230\n"), std::string::npos);
  EXPECT_NE(after(boot, gpu::kOwnModprobe).find("softdep nouveau pre: vfio-pci\n"), std::string::npos);
  EXPECT_NE(after(boot, gpu::kOwnModules).find("vfio-pci"), std::string::npos);
  EXPECT_EQ(after(boot, gpu::kOwnRules), "as it was");
  carry_out(boot);
  EXPECT_TRUE(plan("vfio-pci", {}).empty());
  // And back to nvidia: nothing of it is left but what nvidia itself needs.
  const BootPlan back = plan("nvidia", {});
  EXPECT_EQ(after(back, gpu::kOwnModprobe),
            "# Written by millwright (gpu.bind).\nblacklist nouveau\noptions nouveau modeset=0\n");
  EXPECT_EQ(after(back, gpu::kOwnModules), "gone");
  EXPECT_EQ(after(back, gpu::kOwnHook), "gone");
}

TEST_F(BootFiles, WhatAnAdministratorWroteIsEnoughAndIsCompletedWhereItIsNot) {
  tree_.write("/etc/modprobe.d/vfio.conf", "options vfio-pci ids=10de:2230,10de:1aef\n");
  tree_.write("/etc/modules", "vfio\nvfio_iommu_type1\nvfio_pci\n");
  EXPECT_TRUE(plan("vfio-pci", {}).empty());
  tree_.write("/etc/modules", "vfio\n");  // nothing loads vfio-pci
  const BootPlan boot = plan("vfio-pci", {});
  EXPECT_NE(after(boot, gpu::kOwnModprobe).find("softdep nvidia pre: vfio-pci"), std::string::npos);
  carry_out(boot);
  EXPECT_TRUE(plan("vfio-pci", {}).empty());
}

TEST_F(BootFiles, AFileThatMayNotBeEditedIsAReasonToStop) {
  tree_.write("/usr/lib/modprobe.d/vendor.conf", "options vfio-pci ids=10de:2230\n");
  const BootPlan boot = plan("nvidia", {});
  ASSERT_EQ(boot.impossible.size(), 1U);
  EXPECT_NE(boot.impossible[0].find("/usr/lib/modprobe.d/vendor.conf"), std::string::npos);
}

TEST_F(BootFiles, WhatOnlyAPersonCanJudgeIsNoted) {
  tree_.write("/etc/initramfs-tools/scripts/init-top/vfio",
              "#!/bin/sh\necho vfio-pci > /sys/bus/pci/devices/0000:01:00.0/driver_override\n");
  tree_.write("/etc/modprobe.d/mine.conf", "blacklist nouveau\n");
  const BootPlan boot = plan("nvidia", {});
  ASSERT_EQ(boot.notes.size(), 1U);
  EXPECT_NE(boot.notes[0].find("/etc/initramfs-tools/scripts/init-top/vfio"), std::string::npos);
}

TEST_F(BootFiles, ProxmoxKernelCommandLineIsItsOwnFile) {
  tree_.write("/etc/kernel/proxmox-boot-uuids", "AAAA-BBBB\n");
  tree_.write("/etc/kernel/cmdline", "root=ZFS=rpool/ROOT/pve-1 boot=zfs vfio-pci.ids=10de:2230,10de:1aef iommu=pt");
  EXPECT_FALSE(plan("nvidia", {}).impossible.empty());  // without the tool
  tree_.write("/usr/sbin/proxmox-boot-tool", "#!/bin/sh\n", 0755);
  const BootPlan boot = plan("nvidia", {});
  EXPECT_EQ(after(boot, "/etc/kernel/cmdline"), "root=ZFS=rpool/ROOT/pve-1 boot=zfs iommu=pt\n");
  EXPECT_TRUE(boot.menu);
  EXPECT_TRUE(boot.impossible.empty());
}

}  // namespace
}  // namespace millwright
