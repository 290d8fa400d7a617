// The action that changes boot files, on a laid-out tree with tools that say what was asked of them.
#include <gtest/gtest.h>

#include "steps/gpu/bind_script.hpp"
#include "steps/gpu/boot_files.hpp"
#include "tests/unit/steps_core/real_shell.hpp"
#include "tests/unit/steps_gpu/host_tree.hpp"

namespace millwright {
namespace {

using testing_tools::HostTree;
using testing_tools::RealShell;

class BootScript : public testing::Test {
 protected:
  void SetUp() override {
    tree_.add_a6000("0000:01:00", 17, "vfio-pci", "vfio-pci");
    const std::string root = tree_.root().string();
    // An initramfs that is a folder in a tar, as the real one is a cpio; only modprobe.d matters here.
    tree_.write("/usr/sbin/update-initramfs",
                "#!/bin/sh\necho \"$*\" >>" + root + "/log\ntar -C " + root + " -cf " + root +
                    "/boot/initrd.img-6.8.12-10-pve etc/modprobe.d\n",
                0755);
    tree_.write("/usr/bin/unmkinitramfs", "#!/bin/sh\nmkdir -p \"$2/main\"\ntar -C \"$2/main\" -xf \"$1\"\n", 0755);
    tree_.write("/usr/sbin/update-grub",
                "#!/bin/sh\n. " + root +
                    "/etc/default/grub\n{ echo \"menuentry 'a' {\"\n"
                    "echo \"linux /boot/vmlinuz-6.8.12-10-pve root=x $GRUB_CMDLINE_LINUX\"\necho '}'\n} >" +
                    root + "/boot/grub/grub.cfg\n",
                0755);
    tree_.write("/boot/grub/grub.cfg", "");
    tree_.write("/etc/modprobe.d/vfio.conf", "options vfio-pci ids=10de:2230,10de:1aef disable_vga=1",
                0640);  // no newline
    tree_.write("/etc/default/grub", "GRUB_DEFAULT=0\nGRUB_CMDLINE_LINUX=\"quiet vfio-pci.ids=10de:2230\"\n");
    ASSERT_EQ(
        run("R=" + root + "; $R/usr/sbin/update-grub; $R/usr/sbin/update-initramfs -u -k all; rm $R/log").exit_code, 0);
    before_ = tree();
  }

  Answer run(const std::string& script, const std::filesystem::path& save = {}) {
    return shell_.run(script, "-eu", save);
  }

  std::string tree() {
    return run("cd " + tree_.root().string() +
               " && find etc boot/grub run -type f -exec sha256sum {} + 2>/dev/null | sort; stat -c '%a %n' "
               "etc/modprobe.d/* | sort")
        .out;
  }

  gpu::BootPlan plan(const std::string& driver) {
    return gpu::plan_boot_files(tree_.facts(), {driver, {"0000:01:00.0", "0000:01:00.1"}});
  }

  Action action(const std::string& driver, const std::string& reason = {}) {
    return gpu::boot_action(tree_.facts(), plan(driver), reason, tree_.root().string());
  }

  RealShell shell_;
  HostTree tree_;
  std::string before_;
};

TEST_F(BootScript, ActsReadsBackAndIsUndoneByteByByte) {
  const Action action = this->action("nvidia", "the boot console uses it");
  const auto save = shell_.new_save_dir();
  EXPECT_EQ(run(action.undo, save).exit_code, 0);  // nothing was done
  EXPECT_EQ(tree(), before_);
  ASSERT_EQ(run(action.save, save).exit_code, 0);
  EXPECT_EQ(run(action.undo, save).exit_code, 0);  // only saved
  EXPECT_EQ(tree(), before_);
  const Answer acted = run(action.script, save);
  ASSERT_EQ(acted.exit_code, 0) << acted.err;
  EXPECT_EQ(tree_.read("/etc/modprobe.d/vfio.conf"), "");
  EXPECT_EQ(tree_.read("/etc/default/grub"), "GRUB_DEFAULT=0\nGRUB_CMDLINE_LINUX=\"quiet\"\n");
  EXPECT_EQ(tree_.read("/log"), "-u -k all\n");
  EXPECT_EQ(tree_.read("/run/reboot-required.pkgs"), "millwright (gpu.bind)\n");
  EXPECT_TRUE(plan("nvidia").empty());
  const Answer undone = run(action.undo, save);
  ASSERT_EQ(undone.exit_code, 0) << undone.err;
  EXPECT_EQ(tree(), before_);
  EXPECT_EQ(tree_.read("/log"), "-u -k all\n-u -k all\n");  // the initramfs too
  EXPECT_EQ(run(action.undo, save).exit_code, 0);
  EXPECT_EQ(tree_.read("/log"), "-u -k all\n-u -k all\n");
}

TEST_F(BootScript, SomebodyElsesChangeStays) {
  const Action action = this->action("nvidia");
  const auto save = shell_.new_save_dir();
  ASSERT_EQ(run(action.save, save).exit_code, 0);
  ASSERT_EQ(run(action.script, save).exit_code, 0);
  tree_.write("/etc/default/grub", "GRUB_DEFAULT=0\nGRUB_CMDLINE_LINUX=\"quiet splash\"\n");
  const Answer undone = run(action.undo, save);
  EXPECT_EQ(undone.exit_code, kUndoRefused);
  EXPECT_NE(undone.err.find("/etc/default/grub was changed by someone else"), std::string::npos);
  EXPECT_EQ(tree_.read("/etc/modprobe.d/vfio.conf"), "");  // all or nothing
  const Answer forced = run("MW_FORCE=1\n" + action.undo, save);
  EXPECT_EQ(forced.exit_code, 0) << forced.err;
  EXPECT_EQ(tree(), before_);
}

// A tool that ends with 0 and does nothing is found out by reading back.
TEST_F(BootScript, V18AnInitramfsThatWasNotMadeAgainIsAFailure) {
  const Action action = this->action("nvidia");
  const auto save = shell_.new_save_dir();
  tree_.write("/usr/sbin/update-initramfs", "#!/bin/sh\n", 0755);
  ASSERT_EQ(run(action.save, save).exit_code, 0);
  const Answer acted = run(action.script, save);
  EXPECT_NE(acted.exit_code, 0);
  EXPECT_NE(
      acted.err.find("the initramfs of 6.8.12-10-pve is not as the files it was made from: /etc/modprobe.d/vfio.conf"),
      std::string::npos)
      << acted.err;
  EXPECT_EQ(run(action.undo, save).exit_code, 0);
  EXPECT_EQ(tree_.read("/etc/modprobe.d/vfio.conf"), "options vfio-pci ids=10de:2230,10de:1aef disable_vga=1");
}

TEST_F(BootScript, V18AMenuThatStillSaysSoIsAFailure) {
  const Action action = this->action("nvidia");
  const auto save = shell_.new_save_dir();
  tree_.write("/usr/sbin/update-grub", "#!/bin/sh\n", 0755);
  ASSERT_EQ(run(action.save, save).exit_code, 0);
  const Answer acted = run(action.script, save);
  EXPECT_NE(acted.exit_code, 0);
  EXPECT_NE(acted.err.find("grub.cfg still gives 10de:2230 to vfio-pci"), std::string::npos) << acted.err;
}

TEST_F(BootScript, AToolThatFailsIsQuoted) {
  const Action action = this->action("nvidia");
  const auto save = shell_.new_save_dir();
  tree_.write("/usr/sbin/update-initramfs", "#!/bin/sh\necho 'gzip: No space left on device' >&2\nexit 1\n", 0755);
  ASSERT_EQ(run(action.save, save).exit_code, 0);
  const Answer acted = run(action.script, save);
  EXPECT_NE(acted.exit_code, 0);
  EXPECT_NE(acted.err.find("update-initramfs -u -k all failed:\ngzip: No space left on device"), std::string::npos)
      << acted.err;
}

}  // namespace
}  // namespace millwright
