// llama.cpp in the host's memory: what a server takes of it, and what to change when a limit of the kernel (a unit's
// memory_max, or the container's around it) ended it. The engine fits itself to GPUs, but knows of no such limit.
//
// Pure; safe from any thread.
#pragma once

#include <optional>

#include "steps/server/planner/plan.hpp"

namespace millwright::planner {

// GiB. Weights count whole: mapped from their file they can be dropped and read again, but with each token.
struct HostNeed {
  double weights = 0;
  double kv = 0;
  double states = 0;
  double compute = 0;  // mask and rows of a micro-batch
  double process = 0;  // code, vocabulary, weights laid out anew for the processor
  double pinned = 0;   // kept for a GPU (engine_host.hpp)
  double total() const { return weights + kv + states + compute + process + pinned; }
};
// Without anything on a GPU.
HostNeed host_need(const Query& query, Scenario scenario);

// Tokens that one request can have, which is what a user notices of a context: the server caps a slot at what the model
// was made for, so cells beyond that lie idle.
int host_request_length(const Query& query);

struct HostReplan {
  HostNeed need;                        // as it was started
  std::vector<LadderStep> next;         // the cheapest first; one idea each, or two where one is not enough
  std::vector<std::string> arithmetic;  // a line each
  double least_gib = 0;                 // the limit with which it would have started as it was
  std::string verdict;
};
// After a start that was ended at `limit_gib`, which is `whose` ("memory_max"). A step never shortens requests when the
// context was asked for.
HostReplan replan_host(const Query& query, const FlagTable& table, double limit_gib, const std::string& whose);

// llama.cpp keeps the prompts that it has read in the host's memory, 8 GiB of them unless told otherwise (--cache-ram,
// MiB): under a limit it grows into it long after a start that went well. The flag with what is left of `limit_gib` for
// them, whatever `query` says of it; nothing when the default fits as well, and for a version without the flag.
std::optional<FlagChoice> bounded_prompt_cache(const Query& query, const FlagTable& table, double limit_gib);

}  // namespace millwright::planner
