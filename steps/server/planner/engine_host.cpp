// Sources: sglang 0.5.9 srt/utils/common.py get_available_gpu_memory (device cpu) and mem_cache/memory_pool_host.py;
// vllm 0.32.0 v1/worker/cpu_worker.py, config/cache.py and config/offload.py.
#include "steps/server/planner/engine_host.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "steps/server/planner/sglang.hpp"
#include "steps/server/planner/terms.hpp"
#include "steps/server/planner/vllm_cpu.hpp"
#include "steps/server/planner/vllm_groups.hpp"

namespace millwright::planner {
namespace {

constexpr const char* kPoolVariable = "VLLM_CPU_KVCACHE_SPACE";  // GiB
constexpr double kGB = 1e9;                                      // hicache-size counts in these
constexpr int kLeastTokens = 2048;                               // a pool that nobody can use helps nobody
constexpr std::size_t kSteps = 4;

bool is_sglang(const Query& query) { return query.facts.engine() == "sglang"; }

Layout layout_here(const Query& query, const EngineHost& engine) {
  return engine.on_cpu ? Layout{} : within(layout_of(query), query);
}

double weights_here(const Query& query, Scenario scenario) { return weights_gib(query, Layout{}, 0, false, scenario); }

// GiB that the environment sets the pool of vLLM to; nothing when it does not.
std::optional<double> pool_of_environment(const EngineHost& engine) {
  const auto found = engine.environment.find(kPoolVariable);
  if (found == engine.environment.end()) return {};
  const double said = std::atof(found->second.c_str());
  return said > 0 ? std::optional(said) : std::nullopt;
}

double sglang_pool_gib(const Query& query, const EngineHost& engine, double weights) {
  const Layout layout;
  const SglangSettings settings = sglang_settings(query, layout);
  const double pool = engine.host.free_gib / engine.host.nodes * settings.fraction - weights;
  const double cell = sglang_cell(query, layout, settings, 0).sizing;
  if (!query.set.has("max-total-tokens")) return std::max(0.0, pool);
  return std::clamp(query.set.number("max-total-tokens", 0) * cell / kGiB, 0.0, std::max(0.0, pool));
}

double vllm_pool_gib(const Query& query, const EngineHost& engine, double weights) {
  if (const auto said = pool_of_environment(engine)) return *said;
  if (!query.facts.flag("host_share")) return 0;
  const double share = query.set.number("gpu-memory-utilization", query.facts.number("utilization"));
  return std::max(0.0,
                  share * engine.host.total_gib / engine.host.nodes - weights - query.facts.number("host_worker_gib"));
}

// What the pool must hold at least for the server to be of use.
double least_pool_gib(const Query& query) {
  if (!is_sglang(query)) return vllm_request_gib(query);
  const Layout layout;
  const SglangSettings settings = sglang_settings(query, layout);
  const int asked = asked_context(query);
  return (asked > 0 ? asked : kLeastTokens) * sglang_cell(query, layout, settings, 0).sizing / kGiB;
}

// A second cache of keys and values, and weights that stay with the host: page-locked, so none of it can be dropped.
double pinned_gib(const Query& query, const EngineHost& engine, Scenario scenario) {
  const Layout layout = layout_here(query, engine);
  const double ranks = layout.gpus();
  double out = std::min(query.set.number("cpu-offload-gb", 0) * ranks, query.model.weights.total() / kGiB);
  if (!is_sglang(query)) {
    return out + query.set.number("kv-offloading-size", 0) + query.set.number("swap-space", 0) * ranks;
  }
  if (!query.set.on("enable-hierarchical-cache")) return out;
  if (const double each = query.set.number("hicache-size", 0); each > 0) return out + each * kGB / kGiB * ranks;
  const double ratio = query.set.number("hicache-ratio", query.facts.number("hicache_ratio"));
  for (const RankOutcome& rank : outcome_of(query, layout, scenario).ranks)
    out += ratio * rank.kv_pool_gib * layout.replicas;
  return out;
}

// One idea, with the values that are worth trying, the least painful first.
struct Lever {
  const char* flag;
  std::vector<std::string> values;
  std::string reason;
};

std::vector<std::string> falling(double from, double least, double by, const char* format) {
  std::vector<std::string> out;
  for (double value = from * by; value >= least; value *= by) {
    out.push_back(fmt::format(fmt::runtime(format), value));
    if (out.size() > 200) break;
  }
  return out;
}

std::vector<Lever> levers(const Query& query, const EngineHost& engine) {
  std::vector<Lever> out;
  if (engine.on_cpu && is_sglang(query)) {
    const double fraction = sglang_settings(query, Layout{}).fraction;
    if (engine.host.free_gib > 0)
      out.push_back({"mem-fraction-static", falling(fraction, 0.004, 0.95, "{:.4f}"),
                     "it shares out all that the host has free, and knows of no limit"});
  } else if (engine.on_cpu) {
    const double share = query.set.number("gpu-memory-utilization", query.facts.number("utilization"));
    if (query.facts.flag("host_share") && !pool_of_environment(engine) && engine.host.total_gib > 0)
      out.push_back({"gpu-memory-utilization", falling(share, 0.004, 0.95, "{:.4f}"),
                     "a share of all that the host has: it knows of no limit"});
  } else if (is_sglang(query) && query.set.on("enable-hierarchical-cache")) {
    if (query.set.number("hicache-size", 0) > 0) {
      out.push_back({"hicache-size", falling(query.set.number("hicache-size", 0), 1, 0.9, "{:.0f}"),
                     "a smaller cache in the host's memory"});
    } else {
      // Not below 1: the cache of the host must hold that of the GPU.
      out.push_back(
          {"hicache-ratio",
           falling(query.set.number("hicache-ratio", query.facts.number("hicache_ratio")), 1.05, 0.95, "{:.2f}"),
           "a smaller cache in the host's memory"});
    }
  } else if (!is_sglang(query)) {
    if (query.set.number("swap-space", 0) > 0) out.push_back({"swap-space", {"0"}, "nothing is swapped out"});
    out.push_back({"kv-offloading-size", falling(query.set.number("kv-offloading-size", 0), 0.5, 0.9, "{:.1f}"),
                   "a smaller cache in the host's memory"});
  }
  return out;
}

struct Room {
  const EngineHost& engine;
  double limit = 0;
  double hidden = 0;

  double left(const Query& query, Scenario scenario) const {
    return limit - hidden - engine_host_need(query, engine, scenario).total();
  }
  // With this the server is of use, and within the limit.
  bool holds(const Query& query, Scenario scenario) const {
    const bool enough = !engine.on_cpu || engine_host_need(query, engine, scenario).kv >= least_pool_gib(query);
    return enough && left(query, scenario) >= 0;
  }
};

// The first value that fits even when everything takes more than expected; else the first that fits as expected.
std::optional<LadderStep> step_of(const Query& query, const FlagTable& table, const Lever& lever, const Room& room) {
  const FlagTable::Found flag = table.find(lever.flag);
  if (flag.name.empty()) return {};
  std::optional<LadderStep> likely;
  for (const std::string& value : lever.values) {
    Query changed = query;
    changed.set.set(flag.name, value);
    if (!room.holds(changed, Scenario::likely)) continue;
    const bool surely = room.holds(changed, Scenario::tight);
    if (likely && !surely) continue;
    LadderStep step;
    step.changes.push_back({flag.spelling, value, lever.reason});
    step.headroom_gib = room.left(changed, Scenario::likely);
    step.decision = surely ? Decision::fits : Decision::try_it;
    likely = std::move(step);
    if (surely) break;
  }
  return likely;
}

std::string words_of_need(const HostNeed& need, const EngineHost& engine) {
  if (!engine.on_cpu)
    return fmt::format("kept for the GPU {:.2f} + processes {:.2f} = {:.2f} GiB", need.pinned, need.process,
                       need.total());
  return fmt::format("weights {:.2f} + keys and values {:.2f} + processes {:.2f} = {:.2f} GiB", need.weights, need.kv,
                     need.process, need.total());
}

// What a person can change where no flag does.
std::string other_ways(const Query& query, const EngineHost& engine) {
  if (engine.on_cpu && !is_sglang(query) && pool_of_environment(engine))
    return fmt::format(", and no flag makes that up: {} = {:g} in `env` is what it keeps for keys and values",
                       kPoolVariable, *pool_of_environment(engine));
  if (engine.on_cpu && !is_sglang(query) && !query.facts.flag("host_share"))
    return fmt::format(", and what this version keeps for keys and values can only be said with {} in `env`",
                       kPoolVariable);
  if (!engine.on_cpu && query.set.on("enable-hierarchical-cache"))
    return ", and no flag makes that up but to leave --enable-hierarchical-cache out";
  return ", and no flag makes that up";
}

}  // namespace

HostNeed engine_host_need(const Query& query, const EngineHost& engine, Scenario scenario) {
  HostNeed out;
  const double processes = pick(query.facts.range("host_process_gib"), scenario);
  if (!engine.on_cpu) {
    // Files of weights are mapped while they are loaded: the kernel takes that back.
    out.process = processes * std::max(1, layout_here(query, engine).gpus());
    out.pinned = pinned_gib(query, engine, scenario);
    return out;
  }
  out.weights = weights_here(query, scenario);
  out.process = processes;
  out.kv = is_sglang(query) ? sglang_pool_gib(query, engine, out.weights) : vllm_pool_gib(query, engine, out.weights);
  return out;
}

HostReplan replan_engine_host(const Query& asked, const FlagTable& table, const EngineHost& engine, double limit_gib,
                              const std::string& whose) {
  HostReplan out;
  Query query = asked;
  // The automatic share follows the size of what is shared out.
  if (engine.on_cpu && engine.host.total_gib > 0) {
    for (Gpu& gpu : query.gpus) gpu.total_gib = engine.host.total_gib;
  }
  out.need = engine_host_need(query, engine, Scenario::likely);
  out.arithmetic.push_back(fmt::format("the kernel ended it at a limit of {:.2f} GiB ({})", limit_gib, whose));
  out.arithmetic.push_back(words_of_need(out.need, engine));
  double hidden = 0;
  if (out.need.total() < limit_gib) {
    hidden = limit_gib - out.need.total();
    out.arithmetic.push_back(
        fmt::format("by these figures there was room: something takes {:.2f} GiB that they do not have", hidden));
  }
  out.least_gib = engine_host_need(query, engine, Scenario::tight).total() + hidden;
  const Room room{engine, limit_gib, hidden};
  for (const Lever& lever : levers(query, engine)) {
    if (out.next.size() == kSteps) break;
    if (auto step = step_of(query, table, lever, room)) out.next.push_back(std::move(*step));
  }
  const double missing = std::max(out.need.total() + hidden - limit_gib, 0.01);
  out.verdict = fmt::format("does not fit into {:.2f} GiB: it needs {:.2f} GiB more{}", limit_gib, missing,
                            out.next.empty() ? other_ways(query, engine) : std::string(", or ") + words_of(out.next));
  return out;
}

}  // namespace millwright::planner
