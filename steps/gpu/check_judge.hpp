// Whether GPUs work: what was seen, and what it means.
//
// Pure functions; any thread.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "orchestrator/base/knowledge.hpp"
#include "steps/contract/change.hpp"
#include "steps/gpu/gpu_facts.hpp"

namespace millwright::gpu {

// What a look at the node gave beside the facts.
struct CheckAnswer {
  std::vector<std::string> kernel_log;  // lines about GPUs since the last boot, without times
  std::optional<std::uint64_t> shm_kib;
  std::map<std::string, std::string> libraries;  // "libcuda.so.1" -> the file it is: ".../libcuda.so.580.105.08"
  std::map<int, std::string> group_types;        // IOMMU group -> "DMA", "identity"
  std::vector<std::string> redirecting_bridges;  // PCI bridges that send peer traffic upwards (ACS)
  std::string cuda_state;                        // "none" (nothing to try with), "late", or "done"
  int cuda_error = 0;
  std::string cuda_call;  // "cuInit", "cuMemAlloc of GPU 1"
  int cuda_count = 0;
};

// POSIX sh that only looks; CUDA is tried with Python where the node has it, for a minute at most.
Question check_question();
CheckAnswer parse_check(const std::string& out);

struct Finding {
  enum class Level { failure, note } level = Level::note;
  std::string what, cure, source;
};

struct CheckWish {
  std::optional<int> gpus;  // how many have to work; nothing: all of NVIDIA's
};

// Failures first. None of them: the GPUs work, as far as can be told.
std::vector<Finding> judge(const GpuFacts& facts, const CheckAnswer& seen, const CheckWish& wish,
                           const Knowledge& knowledge);

}  // namespace millwright::gpu
