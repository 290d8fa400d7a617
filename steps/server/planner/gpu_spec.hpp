// GPUs as a person names them: "2xA6000", "8x80GiB", "rtx-3090:23.6GiB*2", several joined by a comma.
//
// Pure; safe from any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "orchestrator/base/knowledge.hpp"
#include "steps/server/planner/quantity.hpp"

namespace millwright::planner {

struct Gpu {
  std::string title;
  double total_gib = 0;  // as CUDA counts it
  double smi_mib = 0;    // as nvidia-smi counts it; 0: not known
  double free_gib = -1;  // measured (host:NAME) ; below 0: not known, all of it
  double compute = 0;    // compute capability; 0: not known
  bool unified = false;  // shares the host's memory
};

// usage: not understood, or a name that is not in knowledge file "gpus", with the nearest one.
Result<std::vector<Gpu>> parse_gpu_spec(const Knowledge& knowledge, std::string_view spec);

// The read-only question that tells a host's GPUs, and the reading of its answer.
std::string gpu_question();
Result<std::vector<Gpu>> parse_gpu_answer(const Knowledge& knowledge, std::string_view answer);

}  // namespace millwright::planner
