// What gpu.check makes of texts that were reported in public. Names begin with the row of tests/data/gpu/cases.csv.
#include <gtest/gtest.h>

#include "steps/gpu/check_judge.hpp"
#include "steps/gpu/check_step.hpp"
#include "steps/gpu/facts_script.hpp"
#include "tests/unit/steps_core/real_shell.hpp"
#include "tests/unit/steps_gpu/host_tree.hpp"

namespace millwright {
namespace {

using gpu::CheckAnswer;
using gpu::Finding;
using gpu::GpuFacts;
using testing_tools::HostTree;
using testing_tools::shipped_knowledge;

class GpuCheck : public testing::Test {
 protected:
  // Two A6000 that work.
  void SetUp() override {
    const HostTree tree;
    tree.add_a6000("0000:01:00", 17, "nvidia", "snd_hda_intel");
    tree.add_a6000("0000:02:00", 18, "nvidia", "snd_hda_intel");
    facts_ = tree.facts();
    facts_.nvidia_version = "580.105.08";
    facts_.smi_status = 0;
    for (gpu::Gpu& one : facts_.gpus) {
      one.smi_driver_version = "580.105.08";
      one.persistence_mode = "Enabled";
    }
    seen_.cuda_state = "done";
    seen_.cuda_count = 2;
    seen_.shm_kib = 64U << 20U;
    seen_.libraries = {{"libcuda.so.1", "/usr/lib/x86_64-linux-gnu/libcuda.so.580.105.08"}};
    seen_.group_types = {{17, "identity"}, {18, "identity"}};
  }

  std::string judged(Finding::Level level) const {
    std::string out;
    for (const Finding& one : gpu::judge(facts_, seen_, wish_, shipped_knowledge())) {
      if (one.level == level) out += one.what + " -> " + one.cure + "\n";
    }
    return out;
  }
  std::string failures() const { return judged(Finding::Level::failure); }
  std::string notes() const { return judged(Finding::Level::note); }

  GpuFacts facts_;
  CheckAnswer seen_;
  gpu::CheckWish wish_;
};

void expect_within(const std::string& text, std::initializer_list<const char*> parts) {
  for (const char* part : parts) EXPECT_NE(text.find(part), std::string::npos) << part << "\nis not in\n" << text;
}

TEST_F(GpuCheck, TwoThatWorkHaveNoFindings) {
  EXPECT_EQ(failures(), "");
  EXPECT_EQ(notes(), "");
}

TEST_F(GpuCheck, FewerThanWantedIsAFailureThatNamesWhereTheyAre) {
  facts_.functions.at("0000:02:00.0").driver = "vfio-pci";
  seen_.cuda_count = 1;
  expect_within(failures(), {"1 of 2 GPUs run with nvidia: 0000:02:00.0 is on vfio-pci", "gpu.bind"});
  wish_.gpus = 1;
  EXPECT_EQ(failures(), "");
}

TEST_F(GpuCheck, V22OffTheBusWithoutAnXid) {
  seen_.kernel_log = {
      "NVRM: The NVIDIA GPU 0000:02:00.0\nNVRM: has fallen off the bus and is not responding to commands."};
  expect_within(failures(), {"has fallen off the bus", "power cycle"});
}

TEST_F(GpuCheck, V23XidsAreToldApart) {
  seen_.kernel_log = {"NVRM: Xid (PCI:0000:01:00): 31, pid=4711, name=python3, Ch 00000008"};
  EXPECT_EQ(failures(), "");  // a program's own mistake
  seen_.kernel_log.push_back(
      "NVRM: Xid (PCI:0000:02:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.");
  expect_within(failures(), {"Xid 79 of 0000:02:00", "heat, power or the slot"});
}

TEST_F(GpuCheck, V25D16D17TextsOfTheFirmwareExplainAGpuThatIsNotFound) {
  facts_.smi_status = 6;
  facts_.smi_error = "No devices were found";
  seen_.kernel_log = {
      "NVRM: _kgspBootGspRm: unexpected WPR2 already up, cannot proceed with booting GSP",
      "NVRM: GPU0 kgspWaitForGfwBootOk_TU102: failed to wait for GFW_BOOT: (progress 0x3)",
      "nvidia 0000:01:00.0: loading /lib/firmware/nvidia/570.133.20/gsp_ga10x.bin failed with error -4"};
  expect_within(failures(), {"nvidia-smi ends with 6", "No devices were found", "gpu.bind"});
  expect_within(notes(), {"WPR2", "/reset", "GFW_BOOT", "power cycle", "gsp_ga10x.bin", "firmware-nvidia-gsp"});
  // The same lines of a host that works are history.
  facts_.smi_status = 0;
  EXPECT_EQ(failures() + notes(), "");
}

TEST_F(GpuCheck, D01D03TheWrongFlavourOfTheModule) {
  facts_.smi_status = 6;
  seen_.kernel_log = {
      "NVRM: installed in this system requires use of the NVIDIA open kernel modules.",
      "NVRM: not supported by open nvidia.ko because it does not include the required GPU System Processor (GSP)."};
  expect_within(notes(), {"module: open", "module: proprietary"});
}

TEST_F(GpuCheck, D02TheFirmwareOfTheBoard) {
  facts_.smi_status = 6;
  seen_.kernel_log = {"NVRM: GPU 0000:01:00.0: RmInitAdapter failed! (0x22:0x56:884)"};
  expect_within(notes(), {"0x22:0x56:884", "Resizable BAR"});
}

TEST_F(GpuCheck, D09ALibraryThatWasReplacedUnderALoadedModule) {
  facts_.smi_status = 18;
  facts_.smi_error = "Failed to initialize NVML: Driver/library version mismatch";
  seen_.libraries["libnvidia-ml.so.1"] = "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.580.126.09";
  expect_within(failures(), {"nvidia-smi ends with 18",
                             "libnvidia-ml.so.1 is 580.126.09, the module that is loaded is 580.105.08"});
}

TEST_F(GpuCheck, L04L22TheUserlandOfAContainerHasToBeTheHosts) {
  seen_.libraries["libcuda.so.1"] = "/usr/lib/x86_64-linux-gnu/libcuda.so.375.51";
  expect_within(failures(), {"libcuda.so.1 is 375.51", "in a container install the host's version"});
}

TEST_F(GpuCheck, D20D23NvmlWorksAndCudaDoesNot) {
  seen_.cuda_error = 802;
  seen_.cuda_call = "cuInit";
  expect_within(failures(), {"cuInit fails with error 802", "nvidia-fabricmanager"});
  seen_.cuda_error = 999;
  expect_within(failures(), {"nvidia_uvm"});
  seen_.cuda_error = 0;
  seen_.cuda_count = 1;
  expect_within(failures(), {"CUDA sees 1 of 2 GPUs"});
  seen_.cuda_state = "late";
  expect_within(failures(), {"did not end in a minute"});
}

TEST_F(GpuCheck, L07TheModeOfTheDeviceFiles) {
  facts_.smi_status = 4;
  facts_.smi_error = "Failed to initialize NVML: Insufficient Permissions";
  expect_within(failures(), {"may not open the device files", "NVreg_DeviceFileMode"});
}

TEST_F(GpuCheck, N01N02N03PeersThroughAnIommuThatTranslates) {
  seen_.group_types[17] = "DMA-FQ";
  seen_.redirecting_bridges = {"00:01.1"};
  expect_within(notes(), {"the IOMMU translates for 0000:01:00.0", "00:01.1", "iommu=pt", "NCCL_P2P_DISABLE=1"});
  EXPECT_LT(notes().find("iommu=pt"), notes().find("setpci"));
  EXPECT_EQ(failures(), "");
}

TEST_F(GpuCheck, N04ASmallSharedMemory) {
  seen_.shm_kib = 65536;
  expect_within(notes(), {"/dev/shm has 64 MiB; 2 GPUs that work together want 2048 MiB"});
}

TEST_F(GpuCheck, TheQuestionIsAnsweredByThisMachine) {
  testing_tools::RealShell shell;
  const Answer answer = shell.run(gpu::check_question().script, "-eu");
  EXPECT_EQ(answer.exit_code, 0) << answer.err;
  const CheckAnswer seen = gpu::parse_check(answer.out);
  EXPECT_FALSE(seen.cuda_state.empty());
  EXPECT_TRUE(seen.shm_kib.has_value());
}

TEST_F(GpuCheck, TheStepFailsWithTheFirstFindingAndTellsTheOthers) {
  const HostTree tree;
  tree.add_a6000("0000:01:00", 17, "vfio-pci", "vfio-pci");
  Answers answers;
  answers.set(gpu::kFactsKey, {0, tree.answer(), ""});
  answers.set("check", {0, "cuda\tnone\t0\t-\t0\n", ""});
  const GpuCheckStep step(shipped_knowledge());
  const auto change = step.plan(Inputs(Value::object()), answers);
  ASSERT_FALSE(change.has_value());
  expect_within(change.error().message, {"0 of 1 GPUs run with nvidia"});
  expect_within(change.error().detail, {"nvidia-smi is not installed"});
  const auto fine = step.plan(Inputs(Value{{"gpus", 0}}), answers);
  ASSERT_FALSE(fine.has_value());  // none at all is never what was meant
}

}  // namespace
}  // namespace millwright
