// vLLM on a processor: its pool is a share of the host's memory less what the process has taken by then.
//
// Pure; safe from any thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "steps/server/planner/log_reader.hpp"
#include "steps/server/planner/plan.hpp"

namespace millwright::planner {

// Bytes of the pool that one request of the longest takes, on a processor, in GiB.
double vllm_request_gib(const Query& query);

struct CpuReplan {
  std::vector<LadderStep> next;  // one step, or none
  std::vector<std::string> arithmetic;
  double missing_gib = 0;
};
// After a start that ended for its share of the host's memory; nothing when the failure was another one.
std::optional<CpuReplan> replan_vllm_cpu(const Query& query, const FlagTable& table, const LogReading& reading);

}  // namespace millwright::planner
