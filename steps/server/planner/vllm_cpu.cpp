// Source: vllm 0.32.0, v1/worker/cpu_worker.py: CPUWorker.__init__ and determine_available_memory.
#include "steps/server/planner/vllm_cpu.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "steps/server/planner/terms.hpp"
#include "steps/server/planner/vllm_groups.hpp"

namespace millwright::planner {
namespace {

constexpr const char* kFlag = "gpu-memory-utilization";  // of the host's memory, despite its name
constexpr double kStep = 0.001;
constexpr double kOfFree = 0.9;  // other processes of the host take and free memory meanwhile
constexpr double kLeastPoolGib = 1;
constexpr double kRequests = 4;   // a pool holds so many of the longest requests, if there is room
constexpr double kGrowth = 0.25;  // GiB that the process may take more than the last time
constexpr double kMargin = 1.1;
constexpr double kMostShare = 0.95;

// The share that is wanted, why, and how it was worked out.
struct Wanted {
  double share = 0;
  std::string reason;
  std::string arithmetic;
  double missing_gib = 0;
};

// Before anything is loaded: more than is free was asked for.
Wanted at_startup(double free, double total, double requested) {
  const double share = std::floor(free * kOfFree / total / kStep) * kStep;
  return {share, "no more than is free at the start",
          fmt::format("{:.2f} of {:.2f} GiB were free, and {:.2f} were asked for: {:g} x {:.2f} / {:.2f} = {:.3f}",
                      free, total, requested, kOfFree, free, total, share),
          requested - free};
}

// The model is loaded, and what is left of the share is no pool, or more than there is.
Wanted at_pool(const Query& query, double free, double total, double requested, double for_pool) {
  const double taken = requested - for_pool;
  const double one = vllm_request_gib(query);
  const double most = free * kOfFree;
  const bool small = for_pool <= 0;
  const double pool = small ? std::min(std::max(kLeastPoolGib, kRequests * one), most) : most;
  Wanted out;
  out.missing_gib = small ? pool - for_pool : for_pool - free;
  out.arithmetic = fmt::format(
      "the process had taken {:.2f} GiB, and its share was {:.2f}; a request of the longest takes {:.2f} GiB, and "
      "{:.2f} "
      "are free",
      taken, requested, one, free);
  if (one > most) return out;
  const double share = (taken + (small ? kGrowth : 0) + pool) / total / kStep;
  out.share = (small ? std::ceil(share) : std::floor(share)) * kStep;
  out.reason =
      small ? "a larger share of the host's memory: the process alone took more" : "a pool no larger than what is free";
  out.arithmetic += fmt::format(": a pool of {:.2f} GiB makes {:.3f} of {:.2f} GiB", pool, out.share, total);
  return out;
}

// There was a pool, too small for one request.
Wanted for_one_request(double needed, double pool, double total, double requested) {
  const double share = std::ceil((requested + kMargin * (needed - pool)) / total / kStep) * kStep;
  return {
      share, "a larger share of the host's memory: one request needs it",
      fmt::format("{:.2f} GiB of {:.2f} were the share, with a pool of {:.2f}, and one request takes {:.2f}: {:.3f}",
                  requested, total, pool, needed, share),
      needed - pool};
}

}  // namespace

double vllm_request_gib(const Query& query) {
  const Layout layout;
  const VllmSettings settings = vllm_settings(query, layout);
  const BlockLayout blocks = vllm_blocks(query, layout, settings, -1);
  return blocks.block_bytes * blocks_of_request(blocks, settings.max_model_len) / kGiB;
}

std::optional<CpuReplan> replan_vllm_cpu(const Query& query, const FlagTable& table, const LogReading& reading) {
  if (reading.engine != "vllm" || !reading.failure) return {};
  const auto& numbers = reading.failure->numbers;
  const auto number = [&numbers](const char* name) -> std::optional<double> {
    const auto found = numbers.find(name);
    return found == numbers.end() ? std::nullopt : std::optional(found->second);
  };
  const auto free = number("host_free_gib"), total = number("host_total_gib"), requested = number("requested_gib");
  Wanted wanted;
  if (free && total && requested && *total > 0) {
    const auto for_pool = number("for_pool_gib");
    wanted = for_pool ? at_pool(query, *free, *total, *requested, *for_pool) : at_startup(*free, *total, *requested);
  } else if (const auto all = reading.term("host_total_gib"); all && *all > 0 && number("needed_gib")) {
    wanted = for_one_request(*number("needed_gib"), number("kv_pool_gib").value_or(0), *all,
                             reading.term("host_requested_gib").value_or(0));
  } else {
    return {};
  }
  CpuReplan out;
  out.arithmetic.push_back(wanted.arithmetic);
  out.missing_gib = wanted.missing_gib;
  const FlagTable::Found flag = table.find(kFlag);
  if (flag.name.empty() || wanted.share <= 0 || wanted.share > kMostShare) return out;
  LadderStep step;
  step.changes.push_back({flag.spelling, fmt::format("{:.3f}", wanted.share), wanted.reason});
  step.decision = Decision::try_it;
  out.next.push_back(std::move(step));
  return out;
}

}  // namespace millwright::planner
