// What it takes to have GPUs run by another driver, and why not.
//
// Pure functions; any thread.
#pragma once

#include <string>
#include <vector>

#include "steps/contract/change.hpp"
#include "steps/gpu/boot_files.hpp"
#include "steps/gpu/gpu_facts.hpp"

namespace millwright::gpu {

enum class Persist { no, yes };

struct BindWish {
  std::vector<std::string> select;  // "all", addresses, UUIDs, ids, indices
  std::string driver;               // "nvidia", "vfio-pci", "none", or another driver's name
  Persist persist = Persist::yes;
  Milliseconds unbind_deadline = std::chrono::seconds(20);
  Milliseconds bind_deadline = std::chrono::seconds(90);
  std::string root;  // put before every path; for tests
};

// One function that has to change hands.
struct Move {
  std::string address, from, to;  // from "none": bound to nothing; to "-": whatever takes it, but not vfio
};

// What was found out about a wish before anything is touched.
struct BindPicture {
  std::vector<const Gpu*> gpus;
  std::vector<std::string> functions;  // of all of them
  std::vector<Move> moves;             // empty: the drivers are right
  std::string reboot_reason;           // why it cannot happen while the host runs; empty: it can
  std::vector<std::string> notes;
};

// By "all" (NVIDIA's, without virtual functions), address, UUID, id or index. An error (refused) names what there is.
Result<std::vector<const Gpu*>> select_gpus(const GpuFacts& facts, const std::vector<std::string>& select);

// Refusals name who holds what, and in the hint what to do about it.
Result<BindPicture> look_at_bind(const GpuFacts& facts, const BindWish& wish);
Result<Change> plan_bind(const GpuFacts& facts, const BindWish& wish);

}  // namespace millwright::gpu
