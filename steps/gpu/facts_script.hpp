// The one question that gpu.facts, gpu.bind and `millwright facts` ask of a host.
#pragma once

#include <string>
#include <vector>

#include "steps/contract/change.hpp"

namespace millwright::gpu {

// Stable: without what changes by itself (power state, reference counts, temperatures by nvidia-smi), so that an
// action may be guarded by the answer. Full: everything.
enum class FactsDetail { stable, full };

struct FactsQuery {
  FactsDetail detail = FactsDetail::full;
  std::vector<std::string> drivers = {"nvidia"};  // kernel modules to look for on disk, for every kernel
  std::string root;                               // put before every path; empty: the node itself. For tests.
  std::string nvidia_smi = "nvidia-smi";          // program; run only with `full`, and never longer than 15 s
};

// POSIX sh that only reads (a temporary folder apart, which it removes). What it prints is for parse_gpu_facts. It ends
// also while the kernel holds the lock of a device for ever: what would wait for that runs beside it, with a deadline.
std::string facts_script(const FactsQuery& query);

inline constexpr const char* kFactsKey = "gpus";
Question facts_question(const FactsQuery& query);

}  // namespace millwright::gpu
