// The question on laid-out trees, asked by the machine's own sh, and what is made of the answer.
#include <gtest/gtest.h>

#include <algorithm>

#include <sys/stat.h>
#include <unistd.h>

#include "steps/gpu/facts_step.hpp"
#include "tests/unit/steps_gpu/host_tree.hpp"

namespace millwright {
namespace {

using gpu::GpuFacts;
using testing_tools::FunctionFiles;
using testing_tools::HostTree;
using testing_tools::shipped_knowledge;

TEST(GpuFactsQuestion, NamesTwoGpusWithTheirFunctionsOnVfio) {
  const HostTree tree;
  tree.add_a6000("0000:01:00", 17, "vfio-pci", "vfio-pci");
  tree.add_a6000("0000:02:00", 18, "vfio-pci", "snd_hda_intel");
  tree.add(
      {.address = "0000:00:02.0", .class_code = "0x030000", .vendor = "0x1a03", .device = "0x2000", .driver = "ast"});
  const GpuFacts facts = tree.facts();
  ASSERT_EQ(facts.gpus.size(), 3U);
  EXPECT_EQ(facts.gpus[0].address, "0000:00:02.0");
  const gpu::Gpu& first = facts.gpus[1];
  EXPECT_EQ(first.address, "0000:01:00.0");
  EXPECT_EQ(first.index, 0);  // of NVIDIA's: the board's own display does not count
  EXPECT_EQ(first.product.name, "RTX A6000");
  EXPECT_EQ(first.product.architecture, "ampere");
  EXPECT_DOUBLE_EQ(first.product.compute_capability, 8.6);
  EXPECT_EQ(first.functions, (std::vector<std::string>{"0000:01:00.0", "0000:01:00.1"}));
  EXPECT_EQ(first.peers, std::vector<std::string>{"0000:00:02.0"});  // group 17 too
  EXPECT_EQ(facts.gpus[2].index, 1);
  EXPECT_TRUE(facts.gpus[2].peers.empty());
  const gpu::PciFunction& own = facts.function("0000:01:00.0");
  EXPECT_EQ(own.id(), "10de:2230");
  EXPECT_TRUE(own.on_vfio());
  EXPECT_TRUE(own.driver_override.empty());  // "(null)"
  EXPECT_EQ(own.iommu_group, 17);
  EXPECT_EQ(own.boot_vga, false);
  EXPECT_EQ(own.power_state, "D0");
  EXPECT_FALSE(own.off_the_bus);
  EXPECT_EQ(facts.function("0000:02:00.1").driver, "snd_hda_intel");
  EXPECT_EQ(facts.function("0000:02:00.1").boot_vga, std::nullopt);
  EXPECT_EQ(facts.host.root, ::geteuid() == 0);
}

TEST(GpuFactsQuestion, SeesThatADeviceIsGoneAsleepOrUnbound) {
  const HostTree tree;
  tree.add({.driver = "", .group = -1, .override_text = "none", .power_state = "D3cold"});
  tree.write("/sys/bus/pci/devices/0000:01:00.0/config", "\xff\xff\xff\xff");
  tree.write("/sys/bus/pci/devices/0000:01:00.0/sriov_numvfs", "4\n");
  const gpu::PciFunction one = tree.facts().function("0000:01:00.0");
  EXPECT_TRUE(one.off_the_bus);
  EXPECT_TRUE(one.driver.empty());
  EXPECT_EQ(one.driver_override, "none");
  EXPECT_EQ(one.iommu_group, std::nullopt);
  EXPECT_EQ(one.power_state, "D3cold");
  EXPECT_EQ(one.virtual_functions, 4);
  // Dozing is no change that an action would have to wait for; being gone is.
  gpu::FactsQuery stable;
  stable.detail = gpu::FactsDetail::stable;
  EXPECT_EQ(tree.facts(stable).function("0000:01:00.0").power_state, "D3cold");
  tree.write("/sys/bus/pci/devices/0000:01:00.0/power_state", "D3hot\n");
  EXPECT_EQ(tree.facts(stable).function("0000:01:00.0").power_state, "");
}

TEST(GpuFactsQuestion, EndsWhileAnUnbindKeepsTheLockOfTheDevice) {
  const HostTree tree;
  tree.add_a6000("0000:01:00", 17, "vfio-pci", "vfio-pci");
  const std::string override_file = tree.root() / "sys/bus/pci/devices/0000:01:00.0/driver_override";
  ASSERT_EQ(::unlink(override_file.c_str()), 0);
  ASSERT_EQ(::mkfifo(override_file.c_str(), 0600), 0);  // reading it waits for a writer that never comes
  const GpuFacts facts = tree.facts();
  EXPECT_TRUE(facts.device_lock_held);
  EXPECT_TRUE(facts.function("0000:01:00.0").override_unreadable);
}

TEST(GpuFactsQuestion, NamesWhoHoldsADevice) {
  const HostTree tree;
  tree.add_a6000("0000:01:00", 17, "vfio-pci", "vfio-pci");
  tree.write("/sys/bus/pci/devices/0000:01:00.0/fakegpu/fakegpu0/dev", "240:0\n");
  tree.write("/sys/bus/pci/devices/0000:01:00.0/fakegpu/fakegpu0/uevent", "MAJOR=240\nMINOR=0\nDEVNAME=fakegpu0\n");
  tree.add_process(4711, "kvm", "/dev/vfio/17", "0::/qemu.slice/101.scope",
                   {"/usr/bin/kvm", "-id", "101", "-name", "win11,debug-threads=on", "-vnc", "password=geheim"});
  tree.add_process(812, "nvidia-persiste", "/dev/nvidiactl", "0::/system.slice/nvidia-persistenced.service");
  tree.add_process(900, "python3", "/dev/nvidia0", "0::/lxc/104/ns/user.slice");
  tree.add_process(901, "ollama", "/dev/nvidia-uvm", "0::/system.slice/docker-0a1b2c.scope");
  tree.add_process(902, "sh", "/dev/fakegpu0");
  tree.add_process(903, "other", "/dev/null");
  tree.write("/proc/904/comm", "cuda\n");
  tree.write("/proc/904/cgroup", "0::/user.slice\n");
  tree.write("/proc/904/maps", "7f00-7f01 rw-s 00000000 00:05 437   /dev/nvidia1\n");
  const std::string answer = tree.answer();
  EXPECT_EQ(answer.find("geheim"), std::string::npos);
  const GpuFacts facts = *gpu::parse_gpu_facts(answer, shipped_knowledge());
  ASSERT_EQ(facts.holders.size(), 6U);
  const auto text = [&](int pid) {
    for (const gpu::Holder& holder : facts.holders) {
      if (holder.pid == pid) return holder.text() + ": " + holder.devices.front();
    }
    return std::string("nobody");
  };
  EXPECT_EQ(text(4711), "VM 101 (win11), process 4711 (kvm): /dev/vfio/17");
  EXPECT_EQ(text(812), "nvidia-persistenced.service, process 812 (nvidia-persiste): /dev/nvidiactl");
  EXPECT_EQ(text(900), "container 104, process 900 (python3): /dev/nvidia0");
  EXPECT_EQ(text(901), "container 0a1b2c, process 901 (ollama): /dev/nvidia-uvm");
  EXPECT_EQ(text(902), "process 902 (sh): /dev/fakegpu0");
  EXPECT_EQ(text(904), "process 904 (cuda): /dev/nvidia1");
}

TEST(GpuFactsQuestion, AModuleThatIsLoadedHasAVersionBeforeItsProcFileIsThere) {
  const HostTree tree;
  tree.add_a6000("0000:01:00", 17, "vfio-pci", "vfio-pci");
  tree.write("/sys/module/nvidia/refcnt", "0\n");
  tree.write("/sys/module/nvidia/version", "580.105.08\n");
  EXPECT_EQ(tree.facts().nvidia_version, "580.105.08");
}

TEST(GpuFactsQuestion, L17TellsModulesDriverMinorAndUuid) {
  const HostTree tree;
  tree.add_a6000("0000:01:00", 17, "nvidia", "snd_hda_intel");
  tree.write("/sys/module/nvidia/refcnt", "43\n");
  tree.write("/sys/module/nvidia/version", "580.105.08\n");
  tree.write("/sys/module/nvidia/holders/nvidia_uvm/refcnt", "0\n");
  tree.write("/proc/driver/nvidia/version",
             "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.105.08  Release Build  (dvs-builder@U22)\n"
             "GCC version:  gcc version 14.2.0 (Debian 14.2.0-19)\n");
  tree.write("/proc/driver/nvidia/gpus/0000:01:00.0/information",
             "Model: \t\t NVIDIA RTX A6000\nIRQ:   \t\t 155\nGPU UUID: \t GPU-1b2c3d4e-0000-1111-2222-333344445555\n"
             "Bus Location: \t 0000:01:00.0\nDevice Minor: \t 3\n");
  const GpuFacts facts = tree.facts();
  EXPECT_EQ(facts.nvidia_version, "580.105.08");
  EXPECT_EQ(facts.modules.at("nvidia").references, "43");
  EXPECT_EQ(facts.modules.at("nvidia").holders, std::vector<std::string>{"nvidia_uvm"});
  EXPECT_EQ(facts.gpus[0].minor, 3);
  EXPECT_EQ(facts.gpus[0].uuid, "GPU-1b2c3d4e-0000-1111-2222-333344445555");
  gpu::FactsQuery stable;
  stable.detail = gpu::FactsDetail::stable;
  EXPECT_EQ(tree.facts(stable).modules.at("nvidia").references, "used");
  EXPECT_EQ(gpu::nvidia_version_of("NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.133.07  Fri Mar 14"),
            "570.133.07");
  EXPECT_EQ(gpu::nvidia_version_of("nothing of the kind"), "");
}

TEST(GpuFactsQuestion, AsksNvidiaSmiAndGivesItUp) {
  const HostTree tree;
  tree.add_a6000("0000:01:00", 17, "nvidia", "snd_hda_intel");
  tree.write("/smi",
             "#!/bin/sh\necho '0, GPU-1b2c, 00000000:01:00.0, NVIDIA RTX A6000, 580.105.08, 49140, 8.6, Enabled'\n",
             0755);
  gpu::FactsQuery query;
  query.nvidia_smi = (tree.root() / "smi").string();
  GpuFacts facts = tree.facts(query);
  EXPECT_EQ(facts.smi_status, 0);
  EXPECT_EQ(facts.gpus[0].uuid, "GPU-1b2c");
  EXPECT_EQ(facts.gpus[0].memory_mib, 49140U);
  EXPECT_EQ(facts.gpus[0].persistence_mode, "Enabled");
  tree.write("/smi", "#!/bin/sh\necho 'Failed to initialize NVML: Driver/library version mismatch' >&2\nexit 18\n",
             0755);
  facts = tree.facts(query);
  EXPECT_EQ(facts.smi_status, 18);
  EXPECT_EQ(facts.smi_error, "Failed to initialize NVML: Driver/library version mismatch");
}

TEST(GpuFactsQuestion, ReadsBootFilesWholeAndOnlyThoseThatMatter) {
  const HostTree tree;
  tree.add_a6000("0000:01:00", 17, "vfio-pci", "vfio-pci");
  tree.write("/etc/modprobe.d/vfio.conf", "# old\noptions vfio-pci ids=10de:2230,10de:1aef disable_vga=1\n");
  tree.write("/etc/modprobe.d/alsa.conf", "options snd slots=snd-hda-intel\n");
  tree.write("/etc/modprobe.d/vfio.conf.bak", "options vfio-pci ids=10de:2230\n");  // not read by modprobe
  tree.write("/etc/driverctl.d/0000:01:00.0", "vfio-pci\n");
  tree.write("/etc/default/grub", "GRUB_DEFAULT=0\n");
  tree.write("/boot/initrd.img-6.8.12-10-pve", "x");
  const GpuFacts facts = tree.facts();
  std::vector<std::string> paths;
  for (const gpu::BootFile& file : facts.boot_files) paths.push_back(file.path);
  EXPECT_EQ(paths, (std::vector<std::string>{"/etc/modprobe.d/vfio.conf", "/etc/driverctl.d/0000:01:00.0",
                                             "/etc/default/grub"}));
  EXPECT_EQ(facts.boot_files[0].content, "# old\noptions vfio-pci ids=10de:2230,10de:1aef disable_vga=1\n");
  EXPECT_EQ(facts.host.initramfs_newer.at("6.8.12-10-pve"), "");
  std::filesystem::last_write_time(tree.root() / "etc/modprobe.d/vfio.conf",
                                   std::filesystem::file_time_type::clock::now() + std::chrono::hours(1));
  EXPECT_EQ(tree.facts().host.initramfs_newer.at("6.8.12-10-pve"), "/etc/modprobe.d/vfio.conf");
}

TEST(GpuFactsQuestion, AHostWithoutAGpuIsNoMistake) {
  const HostTree tree;
  const GpuFacts facts = tree.facts();
  EXPECT_TRUE(facts.gpus.empty());
  EXPECT_NE(to_table(facts).find("no display or 3D controller"), std::string::npos);
}

TEST(GpuFactsAnswer, CutOffOrForeignIsRefused) {
  const HostTree tree;
  tree.add_a6000("0000:01:00", 17, "vfio-pci", "vfio-pci");
  const std::string answer = tree.answer();
  EXPECT_FALSE(gpu::parse_gpu_facts(answer.substr(0, answer.size() - 4), shipped_knowledge()).has_value());
  EXPECT_FALSE(gpu::parse_gpu_facts("", shipped_knowledge()).has_value());
  EXPECT_FALSE(gpu::parse_gpu_facts("sh: 1: facts: not found\n", shipped_knowledge()).has_value());
  // Nothing that a node may print brings it down.
  for (std::size_t at = 0; at < answer.size(); at += 7) {
    std::string broken = answer;
    broken.replace(at, 5, "\t\n\xff-\t");
    (void)gpu::parse_gpu_facts(broken, shipped_knowledge());
  }
}

TEST(GpuFactsStep, GivesOutputsAndChangesNothing) {
  const HostTree tree;
  tree.add_a6000("0000:01:00", 17, "vfio-pci", "vfio-pci");
  tree.add_a6000("0000:02:00", 18, "vfio-pci", "vfio-pci");
  const GpuFactsStep step(shipped_knowledge());
  Answers answers;
  answers.set(gpu::kFactsKey, {0, tree.answer(), ""});
  const auto change = step.plan(Inputs(Value::object()), answers);
  ASSERT_TRUE(change.has_value());
  EXPECT_TRUE(change->empty());
  EXPECT_EQ(change->summary, "2 x RTX A6000 on vfio-pci");
  EXPECT_EQ(change->outputs.at("count"), 2);
  EXPECT_EQ(change->outputs.at("gpus")[1].at("driver"), "vfio-pci");
  EXPECT_EQ(change->outputs.at("facts").at("host").at("hostname"), "kpro5");
}

}  // namespace
}  // namespace millwright
