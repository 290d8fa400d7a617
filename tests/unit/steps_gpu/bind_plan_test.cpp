// What gpu.bind plans and refuses, from laid-out hosts. Names begin with the row of tests/data/gpu/cases.csv they are
// for.
#include <gtest/gtest.h>

#include <unistd.h>

#include "steps/gpu/bind_checks.hpp"
#include "steps/gpu/bind_plan.hpp"
#include "steps/gpu/bind_step.hpp"
#include "steps/gpu/facts_script.hpp"
#include "tests/unit/steps_gpu/host_tree.hpp"

namespace millwright {
namespace {

using gpu::BindWish;
using gpu::GpuFacts;
using gpu::Persist;
using testing_tools::HostTree;
using testing_tools::shipped_knowledge;

class GpuBind : public testing::Test {
 protected:
  GpuFacts facts() const {
    GpuFacts out = tree_.facts();
    out.host.root = true;
    for (const char* driver : {"nvidia", "vfio-pci", "nouveau"}) {
      out.on_disk.push_back({driver, out.host.kernel, "580.105.08", "Dual MIT/GPL", ""});
    }
    return out;
  }

  void two(const std::string& driver, const std::string& audio) const {
    tree_.add_a6000("0000:01:00", 17, driver, audio);
    tree_.add_a6000("0000:02:00", 18, driver, audio);
  }

  static BindWish wish(const std::string& driver, const std::string& select = "all", Persist persist = Persist::no) {
    BindWish out;
    out.select = {select};
    out.driver = driver;
    out.persist = persist;
    return out;
  }

  std::string refusal(const BindWish& wanted) const { return refusal(wanted, facts()); }
  static std::string refusal(const BindWish& wanted, const GpuFacts& known) {
    const auto change = gpu::plan_bind(known, wanted);
    if (change) return "planned: " + change->summary;
    EXPECT_EQ(change.error().kind, ErrorKind::refused);
    EXPECT_FALSE(change.error().hint.empty()) << change.error().message;
    return change.error().message + " | " + change.error().hint;
  }

  // "0000:01:00.0 vfio-pci>nvidia", one after the other.
  static std::string moves(const BindWish& wanted, const GpuFacts& known) {
    const auto picture = gpu::look_at_bind(known, wanted);
    if (!picture) return picture.error().message;
    std::string out;
    for (const gpu::Move& move : picture->moves) out += move.address + " " + move.from + ">" + move.to + "\n";
    return out;
  }

  HostTree tree_;
};

void expect_within(const std::string& text, std::initializer_list<const char*> parts) {
  for (const char* part : parts) EXPECT_NE(text.find(part), std::string::npos) << part << "\nis not in\n" << text;
}

TEST_F(GpuBind, MovesAllFunctionsAndLeavesSoundToItsOwnDriver) {
  two("vfio-pci", "vfio-pci");
  EXPECT_EQ(
      moves(wish("nvidia"), facts()),
      "0000:01:00.0 vfio-pci>nvidia\n0000:01:00.1 vfio-pci>-\n0000:02:00.0 vfio-pci>nvidia\n0000:02:00.1 vfio-pci>-\n");
  const auto change = gpu::plan_bind(facts(), wish("nvidia"));
  ASSERT_TRUE(change.has_value()) << change.error().message;
  ASSERT_EQ(change->actions.size(), 1U);
  EXPECT_TRUE(change->actions[0].marks.destructive);
  EXPECT_FALSE(change->actions[0].undo.empty());
  EXPECT_EQ(change->summary, "2 GPUs vfio-pci -> nvidia");
  EXPECT_EQ(change->outputs.at("needs_reboot"), false);
}

TEST_F(GpuBind, DoesNothingWhenItIsSo) {
  two("nvidia", "snd_hda_intel");
  const auto change = gpu::plan_bind(facts(), wish("nvidia"));
  ASSERT_TRUE(change.has_value()) << change.error().message;
  EXPECT_TRUE(change->empty());
  EXPECT_EQ(change->summary, "2 GPUs on nvidia");
  EXPECT_EQ(change->outputs.at("gpus").size(), 2U);
}

TEST_F(GpuBind, SelectsByAddressIdIndexAndUuid) {
  two("vfio-pci", "vfio-pci");
  for (const char* one : {"0000:02:00.0", "02:00", "02:00.0", "1"}) {
    const auto gpus = gpu::select_gpus(facts(), {one});
    ASSERT_TRUE(gpus.has_value()) << one;
    ASSERT_EQ(gpus->size(), 1U) << one;
    EXPECT_EQ(gpus->front()->address, "0000:02:00.0") << one;
  }
  EXPECT_EQ(gpu::select_gpus(facts(), {"10DE:2230"})->size(), 2U);
  EXPECT_EQ(gpu::select_gpus(facts(), {"0", "0000:01:00"})->size(), 1U);
  expect_within(refusal(wish("nvidia", "7")), {"no GPU is '7'", "0000:01:00.0 (10de:2230)"});
  expect_within(refusal(wish("nvidia", "GPU-1b2c")), {"only while nvidia runs the GPU"});
}

// V01, V02: an unbind of nvidia with a user never ends, whatever happens to the user afterwards.
TEST_F(GpuBind, V01V02NvidiaWithAUserIsRefusedByName) {
  two("nvidia", "snd_hda_intel");
  tree_.add_process(900, "python3", "/dev/nvidia-uvm", "0::/system.slice/sglang.service");
  expect_within(refusal(wish("vfio-pci")),
                {"sglang.service", "process 900 (python3)", "/dev/nvidia-uvm", "systemctl stop sglang.service"});
}

TEST_F(GpuBind, V01NvidiaIsUnloadedAndNeverUnbound) {
  two("nvidia", "snd_hda_intel");
  const auto change = gpu::plan_bind(facts(), wish("vfio-pci"));
  ASSERT_TRUE(change.has_value()) << change.error().message;
  expect_within(change->actions[0].script, {"rmmod \"$m\"", "0000:01:00.0 nvidia vfio-pci"});
  // Unloading comes before anything that unbinds.
  const std::string& script = change->actions[0].script;
  const std::size_t rebind = script.find("mw_rebind() {");
  EXPECT_LT(script.find("mw_unload_nvidia\n", rebind), script.find("mw_leave \"$a\"", rebind));
}

// V04, V17: the boot console uses the memory of the GPU.
TEST_F(GpuBind, V04V17TheBootConsoleNeedsAReboot) {
  two("nouveau", "snd_hda_intel");
  tree_.write(
      "/proc/iomem",
      "c0000000-dfffffff : PCI Bus 0000:01\n  c0000000-cfffffff : 0000:01:00.0\n    c0000000-c02fffff : BOOTFB\n");
  tree_.write("/proc/fb", "0 simpledrmdrmfb\n");
  GpuFacts known = facts();
  ASSERT_EQ(known.console_on, std::vector<std::string>{"0000:01:00.0"});
  expect_within(refusal(wish("vfio-pci"), known), {"the boot console uses 0000:01:00.0", "persist: true"});
  const auto change = gpu::plan_bind(known, wish("vfio-pci", "all", Persist::yes));
  ASSERT_TRUE(change.has_value()) << change.error().message;
  ASSERT_EQ(change->actions.size(), 1U);  // boot files only
  EXPECT_TRUE(change->actions[0].marks.needs_reboot);
  EXPECT_EQ(change->outputs.at("needs_reboot"), true);
}

// V05: nvidia-persistenced is a user that can be stopped, and is started again.
TEST_F(GpuBind, V05PersistencedIsStoppedRatherThanRefused) {
  two("nvidia", "snd_hda_intel");
  tree_.add_process(812, "nvidia-persiste", "/dev/nvidia0", "0::/system.slice/nvidia-persistenced.service");
  const auto change = gpu::plan_bind(facts(), wish("vfio-pci"));
  ASSERT_TRUE(change.has_value()) << change.error().message;
  expect_within(change->actions[0].script,
                {"systemctl stop nvidia-persistenced", "systemctl start nvidia-persistenced"});
  expect_within(change->actions[0].save, {"$MW_SAVE/persistenced"});
  expect_within(change->actions[0].undo, {"systemctl start nvidia-persistenced"});
}

// V03, V06, V07, V09: power states; off the bus is not the same as asleep.
TEST_F(GpuBind, V06ADeviceThatIsGoneIsRefusedAndOneThatSleepsIsWoken) {
  tree_.add({.driver = "vfio-pci", .power_state = "D0"});
  tree_.write("/sys/bus/pci/devices/0000:01:00.0/config", "\xff\xff\xff\xff");
  expect_within(refusal(wish("nvidia")), {"does not answer on the bus", "power cycle"});
  tree_.write("/sys/bus/pci/devices/0000:01:00.0/power_state", "D3cold\n");
  const auto change = gpu::plan_bind(facts(), wish("nvidia"));
  ASSERT_TRUE(change.has_value()) << change.error().message;
}

TEST_F(GpuBind, V03V07V09PowerSavingIsTurnedOffBeforeTheChange) {
  two("vfio-pci", "vfio-pci");
  const auto change = gpu::plan_bind(facts(), wish("nvidia"));
  ASSERT_TRUE(change.has_value());
  expect_within(change->actions[0].script, {"\"$d/d3cold_allowed\" 0", "\"$d/power/control\" on"});
}

// V11: one function of a group on its own driver, and no VM can use the group.
TEST_F(GpuBind, V11AllFunctionsOfTheBoardGoToVfio) {
  tree_.add_a6000("0000:01:00", 17, "vfio-pci", "snd_hda_intel");
  EXPECT_EQ(moves(wish("vfio-pci"), facts()), "0000:01:00.1 snd_hda_intel>vfio-pci\n");
}

TEST_F(GpuBind, V11AForeignDeviceInTheGroupIsRefused) {
  tree_.add_a6000("0000:01:00", 17, "nouveau", "snd_hda_intel");
  tree_.add(
      {.address = "0000:03:00.0", .class_code = "0x020000", .vendor = "0x8086", .device = "0x1521", .driver = "igb"});
  tree_.add({.address = "0000:00:01.0",
             .class_code = "0x060400",
             .vendor = "0x8086",
             .device = "0x1901",
             .driver = "pcieport"});
  expect_within(refusal(wish("vfio-pci")), {"IOMMU group 17", "0000:03:00.0", "which igb runs"});
  // The bridge above them is not counted, and a host driver does not mind.
  EXPECT_EQ(refusal(wish("nvidia")).substr(0, 8), "planned:");
}

TEST_F(GpuBind, V11APeerThatAVmNeedsIsRefused) {
  tree_.add_a6000("0000:01:00", 17, "vfio-pci", "vfio-pci");
  tree_.add_a6000("0000:02:00", 17, "vfio-pci", "vfio-pci");
  tree_.write("/etc/pve/qemu-server/101.conf", "name: win11\nhostpci0: 02:00\n");
  expect_within(refusal(wish("nvidia", "01:00")), {"IOMMU group 17", "0000:02:00.0", "VM 101 (win11) needs it"});
  EXPECT_EQ(refusal(wish("nvidia")).substr(0, 8), "planned:");  // both together
}

// V12: only the one that is selected.
TEST_F(GpuBind, V12OneOfTwoIdenticalGpusMovesAlone) {
  two("vfio-pci", "vfio-pci");
  EXPECT_EQ(moves(wish("nvidia", "02:00"), facts()), "0000:02:00.0 vfio-pci>nvidia\n0000:02:00.1 vfio-pci>-\n");
}

// V13: an override is cleared by a newline and read back.
TEST_F(GpuBind, V13OverridesAreClearedByANewlineAndReadBack) {
  two("vfio-pci", "vfio-pci");
  const std::string script = gpu::plan_bind(facts(), wish("nvidia"))->actions[0].script;
  expect_within(script, {"printf '%s\\n' \"$2\" >\"$1\"", "driver_override of $a stays at $v"});
}

// V14, V15: what was there is kept before the first change, function by function, services too.
TEST_F(GpuBind, V14V15UndoKnowsTheDriverOfEachFunction) {
  tree_.add_a6000("0000:01:00", 17, "vfio-pci", "snd_hda_intel");
  const auto change = gpu::plan_bind(facts(), wish("none"));
  ASSERT_TRUE(change.has_value()) << change.error().message;
  expect_within(change->actions[0].save, {"echo 0000:01:00.0 vfio-pci", "echo 0000:01:00.1 snd_hda_intel"});
  EXPECT_EQ(change->actions[0].undo_title, "give back 0000:01:00.0 to vfio-pci, 0000:01:00.1 to snd_hda_intel");
}

// V18: success is the link of the driver, never an exit status.
TEST_F(GpuBind, V18TheLinkDecidesWhetherItIsSo) {
  two("nouveau", "snd_hda_intel");
  Answers answers;
  answers.set(gpu::kFactsKey, {0, tree_.answer(), ""});
  const GpuBindStep step(shipped_knowledge());
  const auto inputs = check_inputs(step.signature(), {{"driver", "nouveau"}, {"persist", false}});
  if (::geteuid() != 0) GTEST_SKIP() << "the answer says that it was not asked as root";
  EXPECT_TRUE(step.plan(Inputs(*inputs), answers)->empty());
  expect_within(gpu::plan_bind(facts(), wish("nvidia"))->actions[0].script, {"mw_wait_driver \"$a\" \"$t\""});
}

// V19 with libvirt: ended and taken out by its own words.
TEST_F(GpuBind, V19ARunningDomainOfLibvirtIsRefusedByName) {
  two("vfio-pci", "vfio-pci");
  tree_.write(
      "/etc/libvirt/qemu/win11.xml",
      "<domain><devices><hostdev mode='subsystem' type='pci'><source>"
      "<address domain='0x0000' bus='0x01' slot='0x00' function='0x0'/></source></hostdev></devices></domain>\n");
  tree_.write("/run/libvirt/qemu/win11.pid", "4711\n");
  tree_.add_process(4711, "qemu-system-x86", "/dev/null");
  expect_within(refusal(wish("nvidia")), {"domain win11", "0000:01:00.0", "virsh shutdown win11", "virsh edit win11"});
}

// V19, V20: a virtual machine has it, or takes it back.
TEST_F(GpuBind, V19ARunningVmIsRefusedByIdAndName) {
  two("vfio-pci", "vfio-pci");
  tree_.write("/etc/pve/qemu-server/101.conf", "name: win11\nhostpci0: 01:00,pcie=1\n");
  tree_.write("/run/qemu-server/101.pid", "4711\n");
  tree_.add_process(4711, "kvm", "/dev/vfio/17", "0::/qemu.slice/101.scope",
                    {"/usr/bin/kvm", "-id", "101", "-name", "win11"});
  expect_within(refusal(wish("nvidia")), {"VM 101 (win11)", "0000:01:00.0", "hostpci0", "qm shutdown 101"});
  EXPECT_EQ(refusal(wish("nvidia", "02:00")).substr(0, 8), "planned:");
}

TEST_F(GpuBind, V19AHolderWithoutAConfigurationIsRefusedToo) {
  two("vfio-pci", "vfio-pci");
  tree_.add_process(4711, "qemu-system-x86", "/dev/vfio/18", "0::/user.slice",
                    {"qemu-system-x86_64", "-name", "guest=lab,debug-threads=on"});
  expect_within(refusal(wish("nvidia")), {"VM lab, process 4711 (qemu-system-x86) has /dev/vfio/18"});
}

TEST_F(GpuBind, V19ProxmoxOwnListIsBelieved) {
  two("vfio-pci", "vfio-pci");
  tree_.write("/run/qemu-server/pci-id-reservations", "0000:02:00.0 105 time:1718000000\n");
  expect_within(refusal(wish("nvidia")), {"0000:02:00.0 is in use by VM 105"});
}

TEST_F(GpuBind, V20AVmThatStartsWithTheHostIsRefused) {
  two("vfio-pci", "vfio-pci");
  tree_.write("/etc/pve/qemu-server/101.conf", "name: win11\nonboot: 1\nhostpci0: mapping=a6000\n");
  tree_.write("/etc/pve/mapping/pci.cfg", "a6000\n\tmap id=10de:2230,node=kpro5,path=0000:01:00.0\n");
  expect_within(refusal(wish("nvidia")), {"VM 101 (win11)", "mapping a6000", "takes it back when it starts",
                                          "qm set 101 --delete hostpci0", "--onboot 0"});
  tree_.write("/etc/pve/qemu-server/101.conf", "name: win11\nonboot: 0\nhostpci0: mapping=a6000\n");
  const auto change = gpu::plan_bind(facts(), wish("nvidia"));
  ASSERT_TRUE(change.has_value()) << change.error().message;
  expect_within(change->summary, {"VM 101 (win11)", "starting it takes the GPU back"});
  // For vfio-pci it is as it should be.
  EXPECT_EQ(refusal(wish("vfio-pci")).substr(0, 8), "planned:");
}

TEST_F(GpuBind, VirtualFunctionsInUseAreRefused) {
  tree_.add({.driver = "vfio-pci"});
  tree_.write("/sys/bus/pci/devices/0000:01:00.0/sriov_numvfs", "4\n");
  expect_within(refusal(wish("nvidia")), {"4 virtual functions in use", "sriov_numvfs"});
}

TEST_F(GpuBind, WithoutAnIommuThereIsNoVfio) {
  tree_.add({.driver = "nouveau", .group = -1});
  expect_within(refusal(wish("vfio-pci")), {"no IOMMU group", "intel_iommu=on"});
}

// D19 and the driver for the kernel that boots next.
TEST_F(GpuBind, ADriverHasToBeThereForTheKernelThatRunsAndTheOneThatBootsNext) {
  two("vfio-pci", "vfio-pci");
  GpuFacts known = facts();
  known.on_disk.clear();
  expect_within(refusal(wish("nvidia"), known),
                {"no driver nvidia for the kernel that runs (6.8.12-10-pve)", "gpu.driver"});
  known = facts();
  known.host.next_kernel = "6.17.2-1-pve";
  known.host.next_reason = "newest kernel";
  expect_within(refusal(wish("nvidia", "all", Persist::yes), known),
                {"boots next (6.17.2-1-pve, newest kernel) has no driver nvidia"});
}

TEST_F(GpuBind, D19AModuleThatWasChangedWithoutBeingLoadedIsNoted) {
  two("vfio-pci", "vfio-pci");
  GpuFacts known = facts();
  known.nvidia_version = "570.124.06";
  const auto change = gpu::plan_bind(known, wish("nvidia"));
  ASSERT_TRUE(change.has_value());
  expect_within(change->summary, {"570.124.06 is loaded, 580.105.08 is on disk"});
}

TEST_F(GpuBind, AnUnbindThatDidNotEndIsAStateWithAPlan) {
  two("vfio-pci", "vfio-pci");
  tree_.write("/run/millwright-gpu/stuck", "0000:01:00.0 nvidia\n");
  expect_within(refusal(wish("nvidia")), {"0000:01:00.0 could not leave its driver", "reboot"});
  auto change = gpu::plan_bind(facts(), wish("nvidia", "all", Persist::yes));
  ASSERT_TRUE(change.has_value()) << change.error().message;
  ASSERT_EQ(change->actions.size(), 1U);
  expect_within(change->actions[0].script, {"/run/reboot-required"});
  // The files set and the host marked: nothing is left to do but the reboot, which the outputs ask for.
  tree_.write("/etc/modprobe.d/mine.conf", "blacklist nouveau\n");
  tree_.write("/run/reboot-required", "");
  change = gpu::plan_bind(facts(), wish("nvidia", "all", Persist::yes));
  ASSERT_TRUE(change.has_value()) << change.error().message;
  EXPECT_TRUE(change->empty());
  EXPECT_EQ(change->outputs.at("needs_reboot"), true);
  // The other GPU is not concerned.
  EXPECT_EQ(moves(wish("nvidia", "02:00"), facts()), "0000:02:00.0 vfio-pci>nvidia\n0000:02:00.1 vfio-pci>-\n");
}

TEST_F(GpuBind, NotBeingRootIsRefused) {
  two("vfio-pci", "vfio-pci");
  GpuFacts known = facts();
  known.host.root = false;
  expect_within(refusal(wish("nvidia"), known), {"not root", "become: true"});
}

TEST_F(GpuBind, InputsAreChecked) {
  const GpuBindStep step(shipped_knowledge());
  const auto errors = [&](const Value& given) {
    const auto inputs = check_inputs(step.signature(), given);
    EXPECT_TRUE(inputs.has_value());
    return step.check(Inputs(*inputs)).size();
  };
  EXPECT_EQ(errors({{"driver", "nvidia"}}), 0U);
  EXPECT_EQ(errors({{"driver", "nvidia"}, {"select", 1}}), 0U);
  EXPECT_EQ(errors({{"driver", "vfio-pci"}, {"select", {"0000:01:00.0", "10de:2230", "GPU-1b2c3d4e-0000"}}}), 0U);
  EXPECT_EQ(errors({{"driver", "nvidia; reboot"}}), 1U);
  EXPECT_EQ(errors({{"driver", "nvidia"}, {"select", {"$(reboot)"}}}), 1U);
  EXPECT_EQ(errors({{"driver", "nvidia"}, {"select", Value::array()}}), 1U);
}

}  // namespace
}  // namespace millwright
