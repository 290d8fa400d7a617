#include "steps/server/planner/replan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "orchestrator/base/text.hpp"
#include "steps/server/planner/sglang.hpp"
#include "steps/server/planner/terms.hpp"
#include "steps/server/planner/vllm_cpu.hpp"
#include "steps/server/planner/vllm_groups.hpp"

namespace millwright::planner {
namespace {

// Arguments of a log that say something about memory; a log prints hundreds of others.
constexpr std::array kRead = {"tensor-parallel-size",
                              "pipeline-parallel-size",
                              "data-parallel-size",
                              "mem-fraction-static",
                              "max-running-requests",
                              "max-total-tokens",
                              "chunked-prefill-size",
                              "context-length",
                              "kv-cache-dtype",
                              "page-size",
                              "mamba-full-memory-ratio",
                              "max-mamba-cache-size",
                              "mamba-ssm-dtype",
                              "mamba-scheduler-strategy",
                              "mamba-radix-cache-strategy",
                              "disable-radix-cache",
                              "disable-cuda-graph",
                              "cuda-graph-max-bs",
                              "speculative-algorithm",
                              "speculative-num-draft-tokens",
                              "speculative-num-steps",
                              "swa-full-tokens-ratio",
                              "disable-hybrid-swa-memory",
                              "disable-overlap-schedule",
                              "enable-dp-attention",
                              "language-only",
                              "dtype",
                              "quantization",
                              "gpu-memory-utilization",
                              "max-model-len",
                              "max-num-seqs",
                              "max-num-batched-tokens",
                              "enforce-eager",
                              "speculative-config",
                              "block-size",
                              "mamba-cache-mode",
                              "mamba-ssm-cache-dtype"};

constexpr double kFarOff = 0.5;            // of the predicted tokens: under it, something else is at work
constexpr double kOppositeWithin = 0.02;   // of the fraction
constexpr double kLeastAllocation = 0.25;  // GiB, when torch does not say what it could not get

bool is_late(const std::string& where) {
  return where == "after_pool" || where == "graph_capture" || where == "warm_up" || where == "run_time";
}
bool is_early(const std::string& where) {
  return where == "pool_sizing" || where == "state_slots" || where == "one_request";
}

double fraction_of(const LogReading& reading) {
  for (const char* name : {"mem-fraction-static", "gpu-memory-utilization"}) {
    const auto found = reading.arguments.find(name);
    if (found != reading.arguments.end()) return std::atof(found->second.c_str());
  }
  return 0;
}

// Errors that contradict each other: one wants a larger share, the other a smaller one, and they are hardly apart.
bool are_opposite(const LogReading& a, const LogReading& b) {
  if (!a.failure || !b.failure) return false;
  const bool contrary = (is_early(a.failure->where) && is_late(b.failure->where)) ||
                        (is_late(a.failure->where) && is_early(b.failure->where));
  const double one = fraction_of(a), other = fraction_of(b);
  return contrary && one > 0 && other > 0 && std::abs(one - other) <= kOppositeWithin + 1e-9;
}

void compare(const LogReading& reading, const Outcome& predicted, Replan& out) {
  if (predicted.ranks.empty()) return;
  const RankOutcome& rank = predicted.ranks[predicted.tightest];
  const auto add = [&](const char* name, double value) {
    const auto measured = reading.term(name);
    if (measured) out.compared.push_back({name, *measured, value, ""});
  };
  add("weights_gib", rank.weights_gib);
  add("state_gib", rank.state_gib);
  add("state_slots", predicted.state_slots);
  add("kv_pool_gib", rank.kv_pool_gib);
  add("kv_tokens", predicted.kv_tokens);
  add("graphs_gib", rank.graphs_gib);
  add("activation_gib", rank.activation_gib);
  add("non_torch_gib", rank.other_gib);
  add("max_running_requests", predicted.max_running);
  for (Compared& one : out.compared) {
    if (reading.on_cpu) break;
    const bool pool = one.term == "kv_tokens" || one.term == "kv_pool_gib";
    if (pool && one.predicted > 0 && one.measured < kFarOff * one.predicted)
      one.remark =
          "under half of what was to be expected: something else uses the GPU, or this version has a bug in sizing "
          "(SGLang before PR #36583)";
  }
}

// What the likely case leaves out: the start ran out later than it should have, so the activations took what was
// missing.
void calibrate_late(const LogFailure& failure, const Layout& layout, Query& query, Replan& out) {
  const Outcome likely = outcome_of(query, layout, Scenario::likely);
  if (likely.ranks.empty()) return;
  const RankOutcome& rank = likely.ranks[likely.tightest];
  double need = kLeastAllocation;
  if (failure.numbers.count("asked") > 0 && failure.numbers.count("free") > 0)
    need = std::max(0.05, failure.numbers.at("asked") - failure.numbers.at("free"));
  const double left = likely.starts() ? rank.headroom_gib : 0;
  query.given.activation_gib = rank.activation_gib + std::max(0.0, left) + need;
  out.arithmetic.push_back(
      fmt::format("by the figures {:.2f} GiB were to be left beside the pools, and {:.2f} more were asked for: so "
                  "{:.2f} GiB is what runs beside them",
                  left, need, *query.given.activation_gib));
}

// The arithmetic has room where the engine had none: something that is in no log takes it.
void calibrate_early(const Layout& layout, Query& query, Replan& out) {
  const Outcome likely = outcome_of(query, layout, Scenario::likely);
  if (!likely.starts() || likely.ranks.empty()) return;
  const double hidden = likely.ranks[likely.tightest].kv_pool_gib + likely.ranks[likely.tightest].state_gib;
  if (query.facts.engine() == "sglang" && query.given.post_gib) *query.given.post_gib -= hidden;
  if (query.facts.engine() == "vllm") query.given.kv_pool_gib = 0;
  out.arithmetic.push_back(fmt::format(
      "by the arithmetic of {} {} there was room for {:.2f} GiB, and the engine found none: something takes "
      "that much that the log does not name, or it is another version",
      query.facts.title(), query.facts.version().text(), hidden));
}

void calibrate(const LogReading& reading, const Layout& layout, Query& query, Replan& out) {
  const LogFailure& failure = *reading.failure;
  const auto number = [&](const char* name) -> std::optional<double> {
    const auto found = failure.numbers.find(name);
    if (found == failure.numbers.end()) return {};
    return found->second;
  };
  if (const auto pool = number("kv_pool_gib"); pool && !query.given.kv_pool_gib) query.given.kv_pool_gib = *pool;
  if (const auto free = number("free_gib"); free && !query.given.pre_gib) query.given.pre_gib = *free;
  if (is_late(failure.where)) calibrate_late(failure, layout, query, out);
  if (is_early(failure.where) || failure.where == "weights") calibrate_early(layout, query, out);
}

void sglang_arithmetic(const Query& query, const Layout& layout, Replan& out) {
  const SglangSettings settings = sglang_settings(query, layout);
  if (!query.given.pre_gib || !query.given.post_gib) return;
  const double pre = *query.given.pre_gib, post = *query.given.post_gib;
  const double rest = post - pre * (1 - settings.fraction);
  out.arithmetic.push_back(
      fmt::format("free before the weights {:.2f}, after them {:.2f}, f = {:g}: {:.2f} - {:.2f} x {:.3f} = {:.2f} GiB "
                  "for states and tokens",
                  pre, post, settings.fraction, post, pre, 1 - settings.fraction, rest));
  if (!query.model.shape.hybrid()) return;
  const double slot = sglang_slot_bytes(query, layout);
  const SglangStates states = sglang_states(query, settings, rest * kGiB, slot);
  if (settings.speculative)
    out.arithmetic.push_back(fmt::format("drafted states: {} requests x {} tokens x {:.4f} GiB = {:.2f} GiB",
                                         settings.requests.value_or(0), settings.draft_tokens, slot / kGiB,
                                         states.intermediate_bytes / kGiB));
  out.arithmetic.push_back(fmt::format(
      "state slots: {:.0f} x {:.4f} GiB = {:.2f} GiB; {:.2f} GiB are left for tokens, and a request takes {} slots",
      std::max(0.0, states.slots), slot / kGiB, std::max(0.0, states.slots) * slot / kGiB, states.kv_bytes / kGiB,
      states.ratio));
}

void vllm_arithmetic(const Query& query, const Outcome& likely, Replan& out) {
  if (likely.ranks.empty()) return;
  const RankOutcome& rank = likely.ranks[likely.tightest];
  out.arithmetic.push_back(fmt::format(
      "{:g} x {:.2f} GiB = {:.2f}; less weights {:.2f}, activations {:.2f}, non-torch {:.2f}{}: {:.2f} GiB for the "
      "pool",
      likely.fraction, rank.total_gib, likely.fraction * rank.total_gib, rank.weights_gib, rank.activation_gib,
      rank.other_gib,
      query.facts.flag("graphs_in_budget") ? fmt::format(", graphs {:.2f}", rank.graphs_gib) : std::string(),
      rank.kv_pool_gib));
}

constexpr std::array kNotMemory = {
    "flag_unknown",          "flag_invalid", "missing_library", "missing_compiler", "port_taken",
    "load_failed",           "oom_killed",   "file_missing",    "file_corrupt",     "dependency_conflict",
    "model_arch_unsupported"};

}  // namespace

bool is_about_memory(const LogFailure& failure) {
  return std::find(kNotMemory.begin(), kNotMemory.end(), failure.symptom_class) == kNotMemory.end() &&
         failure.where != "other_tenant";
}

// What is no matter of memory: said as it is, with the nearest flag where it is one.
std::string verdict_without_memory(const LogFailure& failure, const FlagTable& table) {
  if (failure.where == "host_memory")
    return failure.sentence + ": raise the memory limit of the host or its cgroup; no flag of the GPU's share helps.";
  if (failure.where == "other_tenant")
    return failure.sentence + ": end the other process, or give this server its own GPU.";
  if (failure.symptom_class == "missing_compiler") return failure.sentence + ": install g++ there.";
  if (failure.symptom_class == "missing_library") return failure.sentence + ": install the package that has it.";
  if (failure.symptom_class == "port_taken") return failure.sentence + ": end that process, or give another port.";
  if (failure.where != "flag_unknown") return failure.sentence + ".";
  const std::size_t at = failure.line.find("--");
  if (at == std::string::npos) return failure.sentence + ".";
  const std::string word = failure.line.substr(at, failure.line.find_first_of(" =", at) - at);
  const FlagTable::Found found = table.find(word);
  std::string out = fmt::format("{}: leave {} out", failure.sentence, word);
  if (!found.near.empty()) out += fmt::format(", or take --{}", found.near);
  if (found.known_elsewhere && !found.versions.empty()) out += fmt::format("; versions {} have it", found.versions);
  return out + ".";
}

void add_logged_flags(const LogReading& reading, const FlagTable& table, GivenFlags& flags) {
  for (const auto& [name, value] : reading.arguments) {
    const FlagTable::Found found = table.find(name);
    if (found.name.empty() || value == "false" || value == "auto" || value.empty() || flags.set.has(found.name))
      continue;
    if (std::find(kRead.begin(), kRead.end(), found.name) == kRead.end()) continue;
    if (ends_with(found.name, "-parallel-size") && value == "1") continue;
    flags.set.set(found.name, value);
    flags.spelling[found.name] = found.one_dash ? found.name : found.spelling;
  }
}

void add_logged_terms(const LogReading& reading, Given& given) {
  const auto pin = [&](std::optional<double>& field, const char* name) {
    if (!field) field = reading.term(name);
  };
  pin(given.pre_gib, "pre_gib");
  pin(given.post_gib, "post_gib");
  if (!reading.term("pre_gib")) pin(given.weights_gib, "weights_gib");
  pin(given.graphs_gib, "graphs_gib");
  pin(given.activation_gib, "activation_gib");
  pin(given.non_torch_gib, "non_torch_gib");
  if (reading.engine == "vllm" || reading.engine == "llama.cpp") pin(given.kv_pool_gib, "kv_pool_gib");
}

Replan replan(const Knowledge& knowledge, const Query& query, const GivenFlags& flags, const FlagTable& table,
              const LogReading& reading, const std::vector<LogReading>& earlier) {
  Replan out;
  const Layout layout = within(layout_of(query), query);
  Query measured = query;
  add_logged_terms(reading, measured.given);
  // In a host's memory only the arithmetic from the measured terms on can be compared.
  compare(reading, outcome_of(reading.on_cpu ? measured : query, layout, Scenario::likely), out);
  // The next start sizes its pool anew: a pool that was measured is no limit of it, unless that is what was missing.
  if (reading.engine == "vllm" && !query.given.kv_pool_gib) measured.given.kv_pool_gib.reset();
  const bool failed = reading.failure.has_value();
  out.memory = !failed || is_about_memory(*reading.failure);
  // As measured: what is put right below is no figure of the log.
  if (query.facts.engine() == "sglang") sglang_arithmetic(measured, layout, out);
  if (failed && out.memory) calibrate(reading, layout, measured, out);
  out.plan = make_plan(knowledge, measured, flags, table);
  if (query.facts.engine() == "vllm") vllm_arithmetic(measured, out.plan.likely, out);
  if (!failed) {
    out.plan.ladder.clear();
    const bool far_off =
        std::any_of(out.compared.begin(), out.compared.end(), [](const Compared& one) { return !one.remark.empty(); });
    out.verdict = far_off ? "It started, with far less room than it should have: see above before changing flags."
                  : reading.ready ? "It started."
                                  : "Nothing in this log says that it failed, nor that it is ready.";
    return out;
  }
  if (!out.memory) {
    out.plan.ladder.clear();
    out.verdict = verdict_without_memory(*reading.failure, table);
    return out;
  }
  if (const auto host = replan_vllm_cpu(measured, table, reading)) {
    out.arithmetic = host->arithmetic;
    out.next = out.plan.ladder = host->next;
    out.plan.missing_gib = host->missing_gib;
    out.verdict =
        fmt::format("{}. {}", reading.failure->sentence,
                    host->next.empty() ? std::string("No share of this host's memory is enough: a smaller model or "
                                                     "context, or fewer other processes.")
                                       : "Next: " + words_of(host->next) + ".");
    return out;
  }
  out.next = out.plan.ladder;
  out.opposite = std::any_of(earlier.begin(), earlier.end(),
                             [&](const LogReading& before) { return are_opposite(before, reading); });
  if (out.opposite) {
    // Between the two there is no fraction left to find.
    const auto only_fraction = [&](const LadderStep& step) {
      return step.changes.size() == 1 && (step.changes.front().name == "mem-fraction-static" ||
                                          step.changes.front().name == "gpu-memory-utilization");
    };
    out.next.erase(std::remove_if(out.next.begin(), out.next.end(), only_fraction), out.next.end());
  }
  const double missing = std::max(out.plan.missing_gib, 0.1);
  if (out.next.empty()) {
    out.verdict = fmt::format(
        "does not fit: it needs {:.1f} GiB more per GPU, and no flag makes that up: a smaller quantisation, or more "
        "GPUs.",
        missing);
  } else if (out.opposite) {
    out.verdict = fmt::format("does not fit: it needs {:.1f} GiB more per GPU, or one of these: {}.", missing,
                              words_of(out.next));
  } else {
    out.verdict = fmt::format("{}: it needs {:.1f} GiB more per GPU. Next: {}.", reading.failure->sentence, missing,
                              words_of(out.next.front().changes));
  }
  return out;
}

}  // namespace millwright::planner
