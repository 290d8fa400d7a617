// SGLang and vLLM in the host's memory, as far as it can be known: what to change when a limit of the kernel ended one.
// On a processor that is the weights and the pool of keys and values; beside a GPU what is kept for it in the host's
// memory (weights that were left there, a second cache). What Python and torch take themselves is an estimate, and a
// start that was ended where there should have been room raises it.
//
// Pure; safe from any thread.
#pragma once

#include <map>
#include <string>

#include "steps/server/planner/host_memory.hpp"

namespace millwright::planner {

// The host while the server does not run. Both engines share it out by NUMA node.
struct HostState {
  double free_gib = 0;  // 0: not known
  double total_gib = 0;
  int nodes = 1;
};

struct EngineHost {
  HostState host;
  bool on_cpu = false;                             // the pools lie in the host's memory
  std::map<std::string, std::string> environment;  // of the server
};

HostNeed engine_host_need(const Query& query, const EngineHost& engine, Scenario scenario);

// As replan_host. Without any step the verdict says what is needed, and `least_gib` a limit that would do.
HostReplan replan_engine_host(const Query& query, const FlagTable& table, const EngineHost& engine, double limit_gib,
                              const std::string& whose);

}  // namespace millwright::planner
