// What to change so that it fits: levers, the cheapest first, each solved for by the same arithmetic.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "orchestrator/base/text.hpp"
#include "steps/server/planner/plan.hpp"
#include "steps/server/planner/sglang.hpp"
#include "steps/server/planner/vllm_groups.hpp"

namespace millwright::planner {
namespace {

struct Candidate {
  std::string value;
  std::string reason;
};

// One flag, and the values worth trying, the least painful first.
struct Lever {
  std::string flag;
  std::vector<Candidate> candidates;
};

std::string plain(double value) { return fmt::format("{:g}", value); }

std::vector<Candidate> counts(int from, int least, const std::string& reason) {
  std::vector<Candidate> out;
  for (int value = from; value >= least; value = value > 64 ? value / 2 : value > 8 ? value * 3 / 4 : value - 1) {
    out.push_back({std::to_string(value), reason});
    if (value == least) break;
  }
  return out;
}

std::vector<Candidate> lengths(int from, int least, const std::string& reason) {
  std::vector<Candidate> out;
  for (int value = from; value >= least && value > 0; value = value * 3 / 4 / 256 * 256)
    out.push_back({std::to_string(value), reason});
  return out;
}

std::vector<Candidate> shares(double from, double to, double step, const std::string& reason) {
  std::vector<Candidate> out;
  for (int at = 1; at <= 95; ++at) {
    const double value = std::round((from + step * at) * 1000) / 1000;
    if (step > 0 ? value > to + 1e-9 : value < to - 1e-9) break;
    out.push_back({plain(value), reason});
  }
  return out;
}

std::vector<Lever> sglang_levers(const Query& query, const Layout& layout, const Outcome& now) {
  const SglangSettings settings = sglang_settings(query, layout);
  const bool hybrid = query.model.shape.hybrid();
  const bool late = now.ends == Stage::after_pool;
  std::vector<Lever> out;
  if (hybrid && settings.speculative)
    out.push_back(
        {"max-running-requests", counts(settings.requests.value_or(48) - 1, 1,
                                        fmt::format("each of {} requests keeps {} drafted states beside its own",
                                                    settings.requests.value_or(48), settings.draft_tokens))});
  if (late && settings.graph_max_bs > 1 && !query.set.on("disable-cuda-graph"))
    out.push_back({query.facts.flag("graph_bs_capped_by_requests") ? "cuda-graph-max-bs-decode" : "cuda-graph-max-bs",
                   counts(settings.graph_max_bs / 2, 1, "fewer CUDA graphs")});
  if (late && !settings.requests)
    out.push_back({"max-running-requests", counts(1024, 8, "a smaller table of requests")});
  if (late)
    out.push_back({"mem-fraction-static", shares(settings.fraction, 0.05, -0.01, "more room beside the pools")});
  if (late)
    out.push_back({"chunked-prefill-size", counts(settings.chunk / 2, 512, "a smaller peak while prompts are read")});
  if (!late && hybrid && settings.speculative)
    out.push_back(
        {"speculative-num-draft-tokens", counts(settings.draft_tokens - 1, 2, "fewer drafted states a request")});
  if (!late && hybrid && query.set.text("mamba-ssm-dtype", "").empty())
    out.push_back({"mamba-ssm-dtype", {{"bfloat16", "states half as large"}}});
  if (!late)
    out.push_back(
        {"mem-fraction-static", shares(settings.fraction, 0.94, 0.01, "a larger share for weights and pools")});
  if (!late && query.set.text("kv-cache-dtype", "auto") == "auto" && query.model.shape.attention_layers() > 0)
    out.push_back({"kv-cache-dtype", {{"fp8_e4m3", "twice the tokens in the same memory"}}});
  return out;
}

std::vector<Lever> vllm_levers(const Query& query, const Layout& layout, const Outcome& now) {
  const VllmSettings settings = vllm_settings(query, layout);
  const bool late = now.ends == Stage::after_pool || now.ends == Stage::before_weights;
  const bool hybrid = query.model.shape.hybrid();
  std::vector<Lever> out;
  if (now.ends == Stage::state_slots)
    out.push_back({"max-num-seqs",
                   {{plain(std::max(1.0, std::floor(now.state_slots))),
                     "as many sequences as there are blocks for their states"}}});
  if (now.ends == Stage::one_request && now.most_model_len >= 2048)
    out.push_back({"max-model-len",
                   {{std::to_string(now.most_model_len / 256 * 256), "the longest request that the pool holds"}}});
  if (late)
    out.push_back(
        {"gpu-memory-utilization", shares(settings.utilization, 0.05, -0.01, "no more than is free at the start")});
  if (!late)
    out.push_back({"gpu-memory-utilization", shares(settings.utilization, 0.95, 0.01, "a larger share of the GPU")});
  if (!query.set.has("max-num-seqs") || settings.max_seqs > 256)
    out.push_back({"max-num-seqs", counts(std::min(256, settings.max_seqs / 2), 16, "a smaller peak of the sampler")});
  out.push_back(
      {"max-num-batched-tokens", counts(settings.batched / 2, 1024, "a smaller peak while prompts are read")});
  out.push_back({"max-model-len", lengths(settings.max_model_len / 2, 2048, "a shorter longest request")});
  if (!query.set.on("enforce-eager")) out.push_back({"enforce-eager", {{"true", "no CUDA graphs (slower)"}}});
  if (query.set.text("kv-cache-dtype", "auto") == "auto" && !hybrid)
    out.push_back({"kv-cache-dtype", {{"fp8", "twice the tokens in the same memory"}}});
  return out;
}

std::vector<Lever> llama_levers(const Query& query, const Outcome& now) {
  std::vector<Lever> out;
  const int context = now.max_model_len;
  if (now.ends != Stage::weights)
    out.push_back({"ctx-size", lengths(context * 3 / 4 / 256 * 256, 4096, "fewer cells")});
  if (query.model.shape.hybrid() || !query.set.on("kv-unified"))
    out.push_back({"parallel", counts(query.set.integer("parallel", 4) - 1, 1, "fewer sequences")});
  if (query.set.text("cache-type-k", "f16") == "f16") out.push_back({"cache-type-k", {{"q8_0", "keys half as large"}}});
  const int all = static_cast<int>(query.model.shape.layers.size());
  std::vector<Candidate> experts;
  for (int part = 1; part <= 8; ++part)
    experts.push_back(
        {std::to_string((all * part + 7) / 8), "experts of so many layers in the host's memory (slower)"});
  if (query.model.shape.experts.count > 0) out.push_back({"n-cpu-moe", experts});
  std::vector<Candidate> layers;
  for (int value = all; value >= 0; value -= std::max(1, all / 16))
    layers.push_back({std::to_string(value), "the other layers on the CPU (slower)"});
  out.push_back({"n-gpu-layers", layers});
  return out;
}

std::vector<Lever> levers(const Query& query, const Layout& layout, const Outcome& now) {
  if (query.facts.engine() == "sglang") return sglang_levers(query, layout, now);
  if (query.facts.engine() == "vllm") return vllm_levers(query, layout, now);
  return llama_levers(query, now);
}

class Solver {
 public:
  Solver(const Query& query, const Layout& layout, const FlagTable& table, std::size_t most)
      : query_(query), layout_(layout), table_(table), most_(most) {}

  std::vector<LadderStep> run(const Outcome& now) {
    const auto first = levers(query_, layout_, now);
    for (const Lever& lever : first) single(query_, lever, {});
    if (steps_.empty()) {
      // One change is not enough: the strongest value of each, and one of the others on top.
      for (const Lever& lever : first) {
        if (steps_.size() >= most_ || lever.candidates.empty()) break;
        Query changed = query_;
        const Candidate& strongest = lever.candidates[lever.candidates.size() / 2];
        changed.set.set(lever.flag, strongest.value);
        const FlagChoice choice = choice_of(lever.flag, strongest);
        if (choice.name.empty()) continue;
        const Outcome then = outcome_of(changed, layout_, Scenario::likely);
        for (const Lever& second : levers(changed, layout_, then)) {
          if (second.flag != lever.flag) single(changed, second, {choice});
        }
      }
    }
    std::stable_sort(steps_.begin(), steps_.end(), [](const LadderStep& a, const LadderStep& b) {
      if (a.changes.size() != b.changes.size()) return a.changes.size() < b.changes.size();
      return a.decision == Decision::fits && b.decision != Decision::fits;
    });
    if (steps_.size() > most_) steps_.resize(most_);
    return steps_;
  }

 private:
  FlagChoice choice_of(const std::string& flag, const Candidate& candidate) const {
    const FlagTable::Found found = table_.find(flag);
    return {found.spelling, candidate.value, candidate.reason};
  }

  // The first value that fits even when everything takes more than expected; else the first that fits as expected.
  void single(const Query& query, const Lever& lever, std::vector<FlagChoice> before) {
    if (steps_.size() >= 2 * most_) return;
    std::optional<LadderStep> likely;
    for (const Candidate& candidate : lever.candidates) {
      FlagChoice choice = choice_of(lever.flag, candidate);
      if (choice.name.empty()) return;  // this version has no such flag
      Query changed = query;
      changed.set.set(lever.flag, candidate.value);
      const Outcome outcome = outcome_of(changed, layout_, Scenario::likely);
      if (!outcome.starts()) continue;
      LadderStep step;
      step.changes = before;
      step.changes.push_back(std::move(choice));
      step.kv_tokens = outcome.kv_tokens;
      step.max_running = outcome.max_running;
      step.max_model_len = outcome.max_model_len;
      step.headroom_gib = outcome.ranks[outcome.tightest].headroom_gib;
      const bool surely = outcome_of(changed, layout_, Scenario::tight).starts();
      step.decision = surely ? Decision::fits : Decision::try_it;
      if (!likely || surely) likely = step;
      if (surely) break;
    }
    if (likely) steps_.push_back(*likely);
  }

  const Query& query_;
  const Layout& layout_;
  const FlagTable& table_;
  std::size_t most_;
  std::vector<LadderStep> steps_;
};

}  // namespace

std::vector<LadderStep> solve(const Query& query, const Layout& layout, const Outcome& now, const FlagTable& table,
                              std::size_t most) {
  return Solver(query, layout, table, most).run(now);
}

}  // namespace millwright::planner
