// Which virtual machine is configured to get which device, in every form that Proxmox accepts.
#include <gtest/gtest.h>

#include "tests/unit/steps_gpu/host_tree.hpp"

namespace millwright {
namespace {

using gpu::normal_pci_address;
using gpu::VmClaim;
using gpu::VmClaims;
using testing_tools::HostTree;

TEST(PciAddress, IsNormalInEveryForm) {
  EXPECT_EQ(normal_pci_address("01:00"), "0000:01:00");
  EXPECT_EQ(normal_pci_address("1:0.0"), "0000:01:00.0");
  EXPECT_EQ(normal_pci_address("0000:C1:00.1"), "0000:c1:00.1");
  EXPECT_EQ(normal_pci_address("10000:01:00.0"), "10000:01:00.0");
  EXPECT_EQ(normal_pci_address("00000000:01:00.0"), "0000:01:00.0");
  EXPECT_EQ(normal_pci_address("GPU-1b2c"), "");
  EXPECT_EQ(normal_pci_address("10de:2230"), "");
  EXPECT_EQ(normal_pci_address(""), "");
}

VmClaims claims_of(const std::string& conf, const std::string& mapping = {}) {
  const HostTree tree;
  tree.add_a6000("0000:01:00", 17, "vfio-pci", "vfio-pci");
  tree.add_a6000("0000:02:00", 18, "vfio-pci", "vfio-pci");
  tree.write("/etc/pve/qemu-server/101.conf", conf);
  if (!mapping.empty()) tree.write("/etc/pve/mapping/pci.cfg", mapping);
  return tree.facts().claims;
}

std::string on(const VmClaims& claims, const std::string& address) {
  std::string out;
  for (const VmClaim& claim : claims.on(address)) out += claim.vm + "/" + claim.key + " ";
  return out;
}

TEST(VmClaims, HostpciInEveryForm) {
  for (const char* value : {"0000:01:00,pcie=1,x-vga=1", "01:00", "host=0000:01:00", "pcie=1,host=01:00.0",
                            "0000:01:00.0;0000:01:00.1", "host=01:00.0;01:00.1,rombar=0"}) {
    const VmClaims claims = claims_of(std::string("name: win11\nhostpci0: ") + value + "\n");
    EXPECT_EQ(on(claims, "0000:01:00.0"), "101/hostpci0 ") << value;
    EXPECT_EQ(on(claims, "0000:02:00.0"), "") << value;
  }
  const VmClaims one = claims_of("hostpci3: 01:00.0\n");
  EXPECT_EQ(on(one, "0000:01:00.1"), "");  // one function only
}

TEST(VmClaims, MappingsAreThoseOfThisHost) {
  const std::string mapping =
      "gpus\n\tmap id=10de:2230,iommugroup=17,node=kpro5,path=0000:01:00.0,subsystem-id=10de:1459\n"
      "\tmap id=10de:2230,iommugroup=9,node=kpro6,path=0000:02:00.0\n"
      "\nboth\n\tmap id=10de:2230,node=kpro5,path=0000:02:00.0;0000:02:00.1\n";
  VmClaims claims = claims_of("hostpci0: mapping=gpus,pcie=1\n", mapping);
  EXPECT_EQ(on(claims, "0000:01:00.0"), "101/hostpci0 ");
  EXPECT_EQ(on(claims, "0000:02:00.0"), "");
  EXPECT_EQ(claims.on("0000:01:00.0")[0].mapping, "gpus");
  claims = claims_of("hostpci1: mapping=both\n", mapping);
  EXPECT_EQ(on(claims, "0000:02:00.1"), "101/hostpci1 ");
  EXPECT_EQ(on(claims_of("hostpci1: mapping=nosuch\n", mapping), "0000:02:00.1"), "");
}

TEST(VmClaims, SnapshotsDoNotClaimAndPendingChangesDo) {
  VmClaims claims = claims_of("name: a\nonboot: 0\n\n[before]\nhostpci0: 01:00\nonboot: 1\nname: old\n");
  EXPECT_EQ(on(claims, "0000:01:00.0"), "");
  EXPECT_FALSE(claims.machines.at("101").starts_at_boot);
  EXPECT_EQ(claims.machines.at("101").name, "a");
  ASSERT_EQ(claims.claims.size(), 1U);
  EXPECT_EQ(claims.claims[0].section, "before");
  claims = claims_of("name: a\n[PENDING]\nhostpci0: 01:00\n\n[before]\nname: a\n");
  EXPECT_EQ(on(claims, "0000:01:00.0"), "101/hostpci0 ");
  // Taken out of a machine that does not run: it will not get it any more.
  EXPECT_EQ(on(claims_of("hostpci0: 01:00\n[PENDING]\ndelete: hostpci0\n"), "0000:01:00.0"), "");
}

TEST(VmClaims, TellWhatRunsStartsAtBootAndIsReserved) {
  const HostTree tree;
  tree.add_a6000("0000:01:00", 17, "vfio-pci", "vfio-pci");
  tree.write("/etc/pve/qemu-server/101.conf", "#a description\nname: win11\nonboot: 1\nhostpci0: 01:00\n");
  tree.write("/etc/pve/qemu-server/102.conf", "name: b\nonboot: 0\n");
  tree.write("/run/qemu-server/101.pid", "4711\n");
  tree.write("/run/qemu-server/102.pid", "4712\n");
  tree.add_process(4711, "kvm", "/dev/null");
  tree.write("/run/qemu-server/pci-id-reservations", "0000:01:00.0 101 pid:4711\n0000:01:00.1 101 time:1718000000\n");
  const VmClaims claims = tree.facts().claims;
  EXPECT_TRUE(claims.machines.at("101").running);
  EXPECT_TRUE(claims.machines.at("101").starts_at_boot);
  EXPECT_FALSE(claims.machines.at("102").running);  // a pid file of a process that is gone
  EXPECT_EQ(claims.reserved.at("0000:01:00.1"), "101");
  const std::string table = to_table(tree.facts());
  EXPECT_NE(table.find("VM 101 (win11), running, has it as hostpci0 and starts at boot"), std::string::npos) << table;
}

// As `virsh define` writes it; an address outside <source> is the guest's.
constexpr const char* kDomain = R"(<domain type='kvm'>
  <name>win11</name>
  <devices>
    <interface type='hostdev' managed='yes'>
      <source><address type='pci' domain='0x0000' bus='0x02' slot='0x00' function='0x0'/></source>
    </interface>
    <hostdev mode='subsystem' type='usb' managed='yes'>
      <source><address bus='1' device='4'/></source>
    </hostdev>
    <hostdev mode='subsystem' type='pci' managed='yes'>
      <driver name='vfio'/>
      <source>
        <address domain='0x0000' bus='0x01' slot='0x00' function='0x0'/>
      </source>
      <address type='pci' domain='0x0000' bus='0x02' slot='0x00' function='0x0'/>
    </hostdev>
  </devices>
</domain>
)";

TEST(VmClaims, HostdevsOfLibvirt) {
  const HostTree tree;
  tree.add_a6000("0000:01:00", 17, "vfio-pci", "vfio-pci");
  tree.add_a6000("0000:02:00", 18, "vfio-pci", "vfio-pci");
  tree.write("/etc/libvirt/qemu/win11.xml", kDomain);
  tree.write("/etc/libvirt/qemu/autostart/win11.xml", kDomain);
  VmClaims claims = tree.facts().claims;
  EXPECT_EQ(on(claims, "0000:01:00.0"), "win11/hostdev ");
  EXPECT_EQ(on(claims, "0000:01:00.1"), "");
  EXPECT_EQ(on(claims, "0000:02:00.0"), "") << "a network card of its, and the address that the guest sees";
  EXPECT_EQ(on(claims, "0000:00:01.4"), "") << "a USB device";
  EXPECT_FALSE(claims.machines.at("win11").running);
  EXPECT_TRUE(claims.machines.at("win11").starts_at_boot);
  EXPECT_EQ(claims.title("win11"), "domain win11");
  EXPECT_EQ(claims.to_end("win11"), "virsh shutdown win11");
  EXPECT_EQ(claims.to_start_by_hand("win11"), "virsh autostart --disable win11");
  EXPECT_EQ(claims.to_take_out(claims.on("0000:01:00.0")[0]), "virsh edit win11 (its <hostdev>)");
}

TEST(VmClaims, WhatWasPluggedIntoARunningDomainIsInItsStatus) {
  const HostTree tree;
  tree.add_a6000("0000:01:00", 17, "vfio-pci", "vfio-pci");
  tree.add_process(4711, "qemu-system-x86", "/dev/vfio/17");
  tree.write("/etc/libvirt/qemu/games.xml", "<domain type='kvm'><name>games</name></domain>\n");
  tree.write("/run/libvirt/qemu/games.xml",
             std::string("<domstatus state='running' pid='4711'>") + kDomain + "</domstatus>");
  tree.write("/run/libvirt/qemu/games.pid", "4711\n");
  const VmClaims claims = tree.facts().claims;
  EXPECT_EQ(on(claims, "0000:01:00.0"), "games/hostdev ");
  EXPECT_TRUE(claims.machines.at("games").running);
}

}  // namespace
}  // namespace millwright
