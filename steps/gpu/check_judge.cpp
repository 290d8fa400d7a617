#include "steps/gpu/check_judge.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <regex>
#include <set>

#include "orchestrator/base/text.hpp"

namespace millwright::gpu {

namespace {

class Judge {
 public:
  Judge(const GpuFacts& facts, const CheckAnswer& seen, const CheckWish& wish, const Knowledge& knowledge)
      : facts_(facts), seen_(seen), wish_(wish), data_(knowledge.file("gpu")) {}

  std::vector<Finding> findings() {
    count();
    look_at_smi();
    look_at_versions();
    look_at_cuda();
    look_at_log();
    look_at_peers();
    std::stable_sort(out_.begin(), out_.end(), [](const Finding& a, const Finding& b) {
      return a.level == Finding::Level::failure && b.level == Finding::Level::note;
    });
    return std::move(out_);
  }

 private:
  void failure(std::string what, std::string cure, std::string source = {}) {
    out_.push_back({Finding::Level::failure, std::move(what), std::move(cure), std::move(source)});
  }
  void note(std::string what, std::string cure, std::string source = {}) {
    out_.push_back({Finding::Level::note, std::move(what), std::move(cure), std::move(source)});
  }

  const Value* row(const char* table, const char* key, int value) const {
    if (!data_.contains(table)) return nullptr;
    for (const Value& one : data_.at(table)) {
      if (one.at(key) == value) return &one;
    }
    return nullptr;
  }

  void count() {
    int all = 0;
    std::vector<std::string> elsewhere;
    for (const Gpu& gpu : facts_.gpus) {
      const PciFunction& f = facts_.function(gpu.address);
      if (!f.is_nvidia() || !f.physical_function.empty()) continue;
      ++all;
      if (f.driver == "nvidia") {
        ++bound_;
      } else {
        elsewhere.push_back(fmt::format("{} is on {}", gpu.address, f.driver.empty() ? "no driver" : f.driver));
      }
    }
    const int wanted = wish_.gpus.value_or(all);
    if (wanted == 0) failure("there is no NVIDIA GPU", "lspci -nn; is the board seated, and powered?");
    if (bound_ < wanted) {
      failure(fmt::format("{} of {} GPUs run with nvidia{}{}", bound_, wanted, elsewhere.empty() ? "" : ": ",
                          join(elsewhere, ", ")),
              "gpu.bind with driver: nvidia");
    }
  }

  void look_at_smi() {
    if (facts_.smi_late) {
      return failure("nvidia-smi did not answer in 15 s",
                     "the kernel log says more; a GPU that hangs needs a reset or a reboot");
    }
    if (!facts_.smi_status)
      return note("nvidia-smi is not installed, so NVML was not asked", "install it with the driver's version");
    if (*facts_.smi_status == 0) {
      int told = 0;
      for (const Gpu& gpu : facts_.gpus) told += gpu.smi_driver_version.empty() ? 0 : 1;
      if (told < bound_)
        failure(fmt::format("nvidia-smi knows {} of {} GPUs", told, bound_), "the kernel log says more");
      for (const Gpu& gpu : facts_.gpus) {
        if (gpu.persistence_mode == "Disabled") {
          note(fmt::format("{} is started anew at each first use (persistence mode is off)", gpu.address),
               "systemctl enable --now nvidia-persistenced");
          break;
        }
      }
      return;
    }
    const Value* known = row("smi_statuses", "status", *facts_.smi_status);
    const std::string said = facts_.smi_error.empty() ? "" : " (" + facts_.smi_error + ")";
    failure(fmt::format("nvidia-smi ends with {}: {}{}", *facts_.smi_status,
                        known ? known->at("means").get<std::string>() : "not a status that is known", said),
            known ? known->at("cure").get<std::string>() : "run it by hand",
            known ? known->at("source").get<std::string>() : "");
  }

  // The library's own name ends with its version.
  void look_at_versions() {
    const std::string& loaded = facts_.nvidia_version;
    if (loaded.empty()) return;
    for (const auto& [name, file] : seen_.libraries) {
      const std::string stem = name.substr(0, name.size() - 1);  // "libcuda.so."
      const std::size_t at = file.rfind(stem);
      const std::string version = at == std::string::npos ? "" : file.substr(at + stem.size());
      if (version.find('.') != std::string::npos && version != loaded) {
        failure(fmt::format("{} is {}, the module that is loaded is {}", name, version, loaded),
                "load the module again, or reboot; in a container install the host's version", "pando85/homelab#4110");
      }
    }
    const DriverOnDisk* disk = facts_.driver_on_disk("nvidia", facts_.host.kernel);
    if (disk != nullptr && !disk->version.empty() && disk->version != loaded) {
      note(fmt::format("nvidia {} is loaded, {} is on disk", loaded, disk->version), "reboot when it suits");
    }
  }

  void look_at_cuda() {
    if (bound_ == 0) return;
    if (seen_.cuda_state == "late") {
      return failure("a CUDA program did not end in a minute", "the kernel log says more; is nvidia_uvm loaded?");
    }
    if (seen_.cuda_state != "done") {
      return note("CUDA was not tried: there is no Python with libcuda.so.1 here",
                  "the smoke test of a server tries it");
    }
    if (seen_.cuda_error != 0) {
      const Value* known = row("cuda_errors", "error", seen_.cuda_error);
      return failure(fmt::format("{} fails with error {}{}{}", seen_.cuda_call, seen_.cuda_error, known ? ": " : "",
                                 known ? known->at("means").get<std::string>() : ""),
                     known ? known->at("cure").get<std::string>() : "the kernel log says more",
                     known ? known->at("source").get<std::string>() : "");
    }
    if (seen_.cuda_count < bound_) {
      failure(fmt::format("CUDA sees {} of {} GPUs", seen_.cuda_count, bound_),
              "are all /dev/nvidiaN there, and may be opened?");
    }
  }

  // What the kernel said since it booted: some of it is always bad, the rest explains what does not work now.
  void look_at_log() {
    std::set<std::string> told;
    static const std::regex xid("Xid \\(PCI:([0-9a-fA-F:.]+)\\): ([0-9]+)");
    std::smatch found;
    const bool works =
        std::none_of(out_.begin(), out_.end(), [](const Finding& f) { return f.level == Finding::Level::failure; });
    const auto tell = [&](const Value& known, const std::string& what) {
      if (!told.insert(what).second) return;
      const std::string text = fmt::format("{} ({})", what, known.at("means").get<std::string>());
      if (known.at("fatal").get<bool>()) {
        failure(text, known.at("cure"), known.at("source"));
      } else if (!works) {
        note(text, known.at("cure"), known.at("source"));
      }
    };
    for (const std::string& line : seen_.kernel_log) {
      if (std::regex_search(line, found, xid)) {
        const Value* known = row("xids", "xid", std::stoi(found[2].str().substr(0, 6)));
        if (known != nullptr) tell(*known, fmt::format("Xid {} of {}", found[2].str(), found[1].str()));
        continue;
      }
      for (const Value& sign : data_.value("signs", Value::array())) {
        if (std::regex_search(line, std::regex(sign.at("pattern").get<std::string>())))
          tell(sign, "the kernel says: " + line);
      }
    }
  }

  // Two GPUs without NVLink talk over PCIe, which bridges and IOMMU can break silently.
  void look_at_peers() {
    if (bound_ < 2) return;
    std::vector<std::string> why;
    for (const Gpu& gpu : facts_.gpus) {
      const PciFunction& f = facts_.function(gpu.address);
      const auto type = f.iommu_group ? seen_.group_types.find(*f.iommu_group) : seen_.group_types.end();
      if (f.driver == "nvidia" && type != seen_.group_types.end() && starts_with(type->second, "DMA")) {
        why.push_back("the IOMMU translates for " + gpu.address);
      }
    }
    if (!seen_.redirecting_bridges.empty()) {
      why.push_back("bridges send peer traffic upwards (ACS): " + join(seen_.redirecting_bridges, ", "));
    }
    if (!why.empty()) {
      note("GPUs may hang or give wrong results when they talk to each other: " + join(why, "; "),
           "in this order: iommu=pt on the kernel command line; ACS off on those bridges (setpci -s BRIDGE "
           "ECAP_ACS+6.w=0000); "
           "NCCL_P2P_DISABLE=1",
           "NVIDIA/nccl#2079; vllm-project/vllm#9920");
    }
    const std::uint64_t wanted = static_cast<std::uint64_t>(bound_) << 20U;
    if (seen_.shm_kib && *seen_.shm_kib < wanted) {
      note(fmt::format("/dev/shm has {} MiB; {} GPUs that work together want {} MiB", *seen_.shm_kib >> 10U, bound_,
                       wanted >> 10U),
           "mount -o remount,size=... /dev/shm, or the container's own limit", "ggml-org/llama.cpp#23523");
    }
  }

  const GpuFacts& facts_;
  const CheckAnswer& seen_;
  const CheckWish& wish_;
  const Value& data_;
  int bound_ = 0;
  std::vector<Finding> out_;
};

}  // namespace

std::vector<Finding> judge(const GpuFacts& facts, const CheckAnswer& seen, const CheckWish& wish,
                           const Knowledge& knowledge) {
  return Judge(facts, seen, wish, knowledge).findings();
}

}  // namespace millwright::gpu
