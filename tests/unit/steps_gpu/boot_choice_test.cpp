// Which kernel boots next, by boot loader.
#include <gtest/gtest.h>

#include "steps/gpu/boot_choice.hpp"
#include "tests/unit/steps_gpu/host_tree.hpp"

namespace millwright {
namespace {

using testing_tools::HostTree;

// As grub-mkconfig of Debian 12 writes it, shortened.
constexpr const char* kGrub = R"(if [ x"${feature_menuentry_id}" = xy ]; then
  menuentry_id_option="--id"
fi
menuentry 'Debian GNU/Linux' --class debian $menuentry_id_option 'gnulinux-simple-1f' {
	echo	'Loading Linux 6.1.0-27-amd64 ...'
	linux	/boot/vmlinuz-6.1.0-27-amd64 root=UUID=1f ro quiet intel_iommu=on
	initrd	/boot/initrd.img-6.1.0-27-amd64
}
submenu 'Advanced options for Debian GNU/Linux' $menuentry_id_option 'gnulinux-advanced-1f' {
	menuentry 'Debian GNU/Linux, with Linux 6.1.0-27-amd64' $menuentry_id_option 'gnulinux-6.1.0-27-amd64-advanced-1f' {
		linux	/boot/vmlinuz-6.1.0-27-amd64 root=UUID=1f ro quiet
	}
	menuentry 'Debian GNU/Linux, with Linux 6.1.0-26-amd64' $menuentry_id_option 'gnulinux-6.1.0-26-amd64-advanced-1f' {
		linux	/boot/vmlinuz-6.1.0-26-amd64 root=UUID=1f ro vfio-pci.ids=10de:2230
	}
}
)";

gpu::HostFacts booting(const std::string& defaults, const std::string& environment = {}) {
  const HostTree tree;
  tree.write("/boot/grub/grub.cfg", kGrub);
  tree.write("/etc/default/grub", defaults);
  if (!environment.empty()) tree.write("/boot/grub/grubenv", environment);
  return tree.facts().host;
}

TEST(BootChoice, GrubTakesItsDefaultInEveryForm) {
  const gpu::HostFacts first = booting("GRUB_DEFAULT=0\n");
  EXPECT_EQ(first.loader, "grub");
  EXPECT_EQ(first.next_kernel, "6.1.0-27-amd64");
  EXPECT_EQ(first.next_command_line, "root=UUID=1f ro quiet intel_iommu=on");
  for (const char* value :
       {"\"1>1\"", "\"Advanced options for Debian GNU/Linux>Debian GNU/Linux, with Linux 6.1.0-26-amd64\"",
        "'gnulinux-advanced-1f>gnulinux-6.1.0-26-amd64-advanced-1f'"}) {
    const gpu::HostFacts older = booting(std::string("GRUB_DEFAULT=") + value + "\n");
    EXPECT_EQ(older.next_kernel, "6.1.0-26-amd64") << value;
    EXPECT_EQ(older.next_command_line, "root=UUID=1f ro vfio-pci.ids=10de:2230");
  }
  EXPECT_EQ(booting("GRUB_DEFAULT=1\n").next_kernel, "6.1.0-27-amd64");  // the submenu: its first
  EXPECT_EQ(booting("GRUB_DEFAULT='no such entry'\n").next_kernel, "");
}

TEST(BootChoice, GrubsEnvironmentComesFirst) {
  const std::string block = "# GRUB Environment Block\n";
  EXPECT_EQ(booting("GRUB_DEFAULT=saved\n", block + "saved_entry=1>1\n").next_kernel, "6.1.0-26-amd64");
  const gpu::HostFacts once = booting("GRUB_DEFAULT=0\n", block + "next_entry=1>1\nsaved_entry=0\n###\n");
  EXPECT_EQ(once.next_kernel, "6.1.0-26-amd64");
  EXPECT_EQ(once.next_reason, "chosen for the next boot only");
}

TEST(BootChoice, ProxmoxPinsOrTakesTheNewest) {
  const HostTree tree;
  tree.write("/etc/kernel/proxmox-boot-uuids", "AAAA-BBBB\n");
  tree.write("/boot/vmlinuz-6.8.12-9-pve", "");
  tree.write("/boot/vmlinuz-6.8.12-10-pve", "");
  EXPECT_EQ(tree.facts().host.loader, "proxmox-boot-tool");
  EXPECT_EQ(tree.facts().host.next_kernel, "6.8.12-10-pve");  // ten comes after nine
  tree.write("/etc/kernel/proxmox-boot-pin", "6.8.12-9-pve\n");
  EXPECT_EQ(tree.facts().host.next_kernel, "6.8.12-9-pve");
  tree.write("/etc/kernel/next-boot-pin", "6.8.12-10-pve\n");
  EXPECT_EQ(tree.facts().host.next_reason, "pinned for the next boot only");
}

TEST(BootChoice, SystemdBootTakesItsDefaultOrTheNewest) {
  const HostTree tree;
  tree.write("/boot/efi/loader/entries/m-6.12.5.conf",
             "title Debian\nlinux /m/6.12.5-amd64/linux\noptions root=x quiet\n");
  tree.write("/boot/efi/loader/entries/m-6.12.10.conf",
             "linux /m/6.12.10-amd64/linux\noptions root=x vfio-pci.ids=1:2\n");
  gpu::HostFacts host = tree.facts().host;
  EXPECT_EQ(host.loader, "systemd-boot");
  EXPECT_EQ(host.next_kernel, "6.12.10-amd64");
  EXPECT_EQ(host.next_command_line, "root=x vfio-pci.ids=1:2");
  tree.write("/boot/efi/loader/loader.conf", "timeout 3\ndefault m-6.12.5.conf\n");
  EXPECT_EQ(tree.facts().host.next_kernel, "6.12.5-amd64");
}

TEST(BootChoice, SecureBootIsTheFifthByte) {
  const HostTree tree;
  EXPECT_FALSE(tree.facts().host.efi);
  const std::string variable = "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c";
  tree.write(variable, std::string("\x06\0\0\0\x01", 5));
  EXPECT_EQ(tree.facts().host.secure_boot, true);
  tree.write(variable, std::string("\x06\0\0\0\0", 5));
  EXPECT_EQ(tree.facts().host.secure_boot, false);
}

TEST(BootChoice, ReadsShellAssignments) {
  EXPECT_EQ(gpu::shell_variable("#A=0\nA=1\n", "A"), "1");
  EXPECT_EQ(gpu::shell_variable("A=\"b c\" # d\n", "A"), "b c");
  EXPECT_EQ(gpu::shell_variable("AB=1\nexport A='x y'\nA=z\n", "A"), "z");
  EXPECT_EQ(gpu::shell_variable("B=1\n", "A"), "");
}

}  // namespace
}  // namespace millwright
