// Source: buffers that llama-server 0.7.0 prints at verbosity 4 and its resident size, Gemma 3 270M on a processor
// (lab).
#include "steps/server/planner/host_memory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "orchestrator/base/text.hpp"
#include "steps/server/planner/llama_cpp.hpp"
#include "steps/server/planner/terms.hpp"

namespace millwright::planner {
namespace {

constexpr double kMaskBytes = 2;  // f16, a cell for each token of a micro-batch
constexpr std::size_t kSteps = 4;

// One idea: flags that belong together, and values worth trying, the least painful first.
struct Lever {
  std::vector<std::string> flags;
  std::vector<std::string> values;
  std::string reason;
};

double mib(double gib) { return gib * 1024; }

double compute_bytes(const Query& query, const LlamaSettings& settings, Scenario scenario) {
  const ModelShape& shape = query.model.shape;
  double widest = 0;
  for (const LayerShape& layer : shape.layers)
    widest = std::max<double>(widest, layer.mlp_width * 2.0 + shape.hidden * 4.0);
  const double rows = settings.ubatch * widest * 4 * pick(query.facts.range("host_rows"), scenario);
  const LlamaCells cells = llama_cells(query, settings);
  double mask = (cells.full + cells.window) * settings.ubatch * kMaskBytes;
  // Without flash attention the scores of all heads are kept as well.
  if (query.set.text("flash-attn") == "off") mask += cells.full * settings.ubatch * shape.heads * 4;
  return rows + mask;
}

std::vector<Lever> levers(const Query& query) {
  const LlamaSettings settings = llama_settings(query);
  const int slots = settings.unified ? 1 : std::max(1, settings.slots);
  const int trained = query.model.shape.max_positions;
  std::vector<Lever> out;
  if (trained > 0 && settings.context / slots > trained)
    out.push_back({{"ctx-size"},
                   {std::to_string(trained * slots)},
                   fmt::format("the model was made for {} tokens: cells beyond them lie idle", trained)});
  if (settings.k_bytes >= 2 && settings.v_bytes >= 2 && query.set.text("flash-attn") != "off")
    out.push_back({{"cache-type-k", "cache-type-v"}, {"q8_0"}, "keys and values half as large"});
  std::vector<std::string> batches;
  for (int size = settings.ubatch / 2; size >= 32; size /= 2) batches.push_back(std::to_string(size));
  out.push_back({{"ubatch-size"}, batches, "a smaller graph (prompts are read more slowly)"});
  // Where slots have states or windows of their own; a stream each is a part of one context, whatever their number.
  if (settings.unified && settings.slots > 1 && (query.model.shape.hybrid() || query.model.shape.largest_window() > 0))
    out.push_back({{"parallel"}, {"1"}, "one request at a time"});
  if (!query.context && !query.set.has("ctx-size")) {
    std::vector<std::string> lengths;
    for (int size = settings.context * 3 / 4 / 256 * 256; size >= 1024; size = size * 3 / 4 / 256 * 256)
      lengths.push_back(std::to_string(size));
    out.push_back({{"ctx-size"}, lengths, "fewer cells; no context was asked for"});
  }
  return out;
}

class Ladder {
 public:
  Ladder(const FlagTable& table, double limit, double hidden) : table_(table), limit_(limit), hidden_(hidden) {}

  std::vector<LadderStep> run(const Query& query) {
    const std::vector<Lever> all = levers(query);
    for (const Lever& lever : all) with(query, lever, {});
    for (std::size_t i = 0; steps_.empty() && i < all.size(); ++i) {
      if (all[i].values.empty()) continue;
      Query changed = query;
      std::vector<FlagChoice> before;
      if (!apply(all[i], all[i].values.back(), changed, before)) continue;
      for (std::size_t j = i + 1; j < all.size(); ++j) {
        if (all[j].flags != all[i].flags) with(changed, all[j], before);
      }
    }
    std::stable_sort(steps_.begin(), steps_.end(), [](const LadderStep& a, const LadderStep& b) {
      return a.decision == Decision::fits && b.decision != Decision::fits;
    });
    if (steps_.size() > kSteps) steps_.resize(kSteps);
    return steps_;
  }

 private:
  double room(const Query& query, Scenario scenario) const {
    return limit_ - hidden_ - host_need(query, scenario).total();
  }

  // False when this version has no such flag.
  bool apply(const Lever& lever, const std::string& value, Query& query, std::vector<FlagChoice>& changes) const {
    for (const std::string& flag : lever.flags) {
      const FlagTable::Found found = table_.find(flag);
      if (found.name.empty()) return false;
      query.set.set(found.name, value);
      changes.push_back({found.spelling, value, lever.reason});
    }
    return true;
  }

  // The first value that fits even when everything takes more than expected; else the first that fits as expected.
  void with(const Query& query, const Lever& lever, const std::vector<FlagChoice>& before) {
    std::optional<LadderStep> likely;
    for (const std::string& value : lever.values) {
      Query changed = query;
      LadderStep step;
      step.changes = before;
      if (!apply(lever, value, changed, step.changes)) return;
      step.headroom_gib = room(changed, Scenario::likely);
      if (step.headroom_gib < 0) continue;
      const bool surely = room(changed, Scenario::tight) >= 0;
      const LlamaSettings settings = llama_settings(changed);
      step.decision = surely ? Decision::fits : Decision::try_it;
      step.kv_tokens = llama_cells(changed, settings).full;
      step.max_running = settings.slots;
      step.max_model_len = host_request_length(changed);
      if (!likely || surely) likely = step;
      if (surely) break;
    }
    if (likely) steps_.push_back(*likely);
  }

  const FlagTable& table_;
  double limit_;
  double hidden_;
  std::vector<LadderStep> steps_;
};

}  // namespace

HostNeed host_need(const Query& query, Scenario scenario) {
  const LlamaSettings settings = llama_settings(query);
  const std::size_t layers = query.model.shape.layers.size();
  const WeightParts& parts = query.model.weights;
  HostNeed out;
  out.weights = (parts.total() + query.model.mmproj_bytes) / kGiB;
  out.kv = llama_kv_bytes(query, settings, 0, layers) / kGiB;
  out.states = llama_state_bytes(query, settings, 0, layers) / kGiB;
  out.compute = compute_bytes(query, settings, scenario) / kGiB;
  out.process = pick(query.facts.range("host_process_mib"), scenario) / 1024 +
                out.weights * pick(query.facts.range("host_repacked"), scenario);
  return out;
}

int host_request_length(const Query& query) {
  const LlamaSettings settings = llama_settings(query);
  const int each = settings.unified ? settings.context : settings.context / std::max(1, settings.slots);
  const int trained = query.model.shape.max_positions;
  return trained > 0 ? std::min(each, trained) : each;
}

HostReplan replan_host(const Query& query, const FlagTable& table, double limit_gib, const std::string& whose) {
  HostReplan out;
  out.need = host_need(query, Scenario::likely);
  out.arithmetic.push_back(fmt::format("the kernel ended it at a limit of {:.0f} MiB ({})", mib(limit_gib), whose));
  out.arithmetic.push_back(fmt::format(
      "weights {:.0f} + keys and values {:.0f} + states {:.0f} + graph {:.0f} + process {:.0f} = {:.0f} MiB",
      mib(out.need.weights), mib(out.need.kv), mib(out.need.states), mib(out.need.compute), mib(out.need.process),
      mib(out.need.total())));
  double hidden = 0;
  if (out.need.total() < limit_gib) {
    hidden = limit_gib - out.need.total();
    out.arithmetic.push_back(
        fmt::format("by these figures there was room: something takes {:.0f} MiB that they do not have", mib(hidden)));
  }
  out.least_gib = host_need(query, Scenario::tight).total() + hidden;
  out.next = Ladder(table, limit_gib, hidden).run(query);
  const double missing = std::max(out.need.total() + hidden - limit_gib, 1.0 / 1024);
  out.verdict = fmt::format("does not fit into {:.0f} MiB: it needs {:.0f} MiB more{}", mib(limit_gib), mib(missing),
                            out.next.empty() ? ", and no flag makes that up" : ", or " + words_of(out.next));
  return out;
}

std::optional<FlagChoice> bounded_prompt_cache(const Query& query, const FlagTable& table, double limit_gib) {
  const FlagTable::Found flag = table.find("cache-ram");
  if (flag.name.empty()) return std::nullopt;
  const double room = std::max(0.0, mib(limit_gib - host_need(query, Scenario::tight).total()));
  if (room >= query.facts.number("host_prompt_cache_mib")) return std::nullopt;
  return FlagChoice{flag.spelling, fmt::format("{:.0f}", std::floor(room)),
                    fmt::format("MiB that a limit of {:.0f} MiB leaves for prompts that were read", mib(limit_gib))};
}

}  // namespace millwright::planner
