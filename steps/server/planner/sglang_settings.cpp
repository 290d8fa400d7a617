#include <algorithm>
#include <cmath>

#include "orchestrator/base/text.hpp"
#include "steps/server/planner/sglang.hpp"
#include "steps/server/planner/terms.hpp"

namespace millwright::planner {
namespace {

// Sizes that a piecewise graph is captured for. Source: _generate_piecewise_cuda_graph_tokens.
int piecewise_sizes(int most) {
  int count = 0;
  const auto add = [&](int from, int to, int step) {
    for (int size = from; size <= std::min(to, most); size += step) ++count;
  };
  add(4, 32, 4);
  add(48, 256, 16);
  add(288, 512, 32);
  add(576, 1024, 64);
  add(1280, 4096, 256);
  add(4608, most, 512);
  return count;
}

double round3(double value) { return std::round(value * 1000) / 1000; }

// The base factor 0.95, less for a larger tower. Source: adjust_mem_fraction_for_vlm; a tower whose config spells its
// layers `depth` counts as 24.
double vision_factor(const VisionShape& vision, double base) {
  const double layers = vision.has_depth_key ? 24 : vision.depth;
  const double ratio = layers * vision.hidden * vision.hidden / (24.0 * 1024 * 1024);
  return base * std::clamp(1.0 - 0.1 * (ratio - 1.0), 0.8, 1.05);
}

double smallest_smi_mib(const Query& query, const Layout& layout) {
  double out = 0;
  for (int rank = 0; rank < layout.ranks(); ++rank) {
    const Gpu& gpu = gpu_of_rank(query, rank);
    const double mib = gpu.smi_mib > 0 ? gpu.smi_mib : gpu.total_gib * 1024;
    out = rank == 0 ? mib : std::min(out, mib);
  }
  return out;
}

double automatic_fraction(const Query& query, const Layout& layout, const SglangSettings& settings, double mib) {
  const EngineFacts& facts = query.facts;
  double reserve = facts.number("reserve_base_mib");
  const int tokens = settings.chunk > 0 ? settings.chunk : query.set.integer("max-prefill-tokens", 16384);
  reserve += std::max(tokens, 2048) * facts.number("reserve_per_chunk_token_mib");
  reserve += settings.graph_max_bs * facts.number("reserve_per_graph_bs_mib");
  reserve += layout.ranks() * facts.number("reserve_per_rank_mib");
  if (query.set.on("enable-dp-attention")) {
    const int dp = query.set.integer("data-parallel-size", 1);
    reserve += settings.graph_max_bs * dp * (settings.graph_max_bs > 300 ? 4.5 : 3.0);
  }
  const bool piecewise = !query.set.on("disable-piecewise-cuda-graph") && !query.set.on("disable-cuda-graph");
  if (query.set.on("enable-piecewise-cuda-graph") && facts.number("reserve_piecewise_each_mib") <= 0) {
    reserve += piecewise_sizes(settings.chunk) * 8.0;  // 0.5.9: off unless asked for
  } else if (piecewise && query.model.shape.mla()) {
    reserve += facts.number("reserve_piecewise_mla_mib");
  } else if (piecewise) {
    reserve += piecewise_sizes(settings.chunk) * facts.number("reserve_piecewise_each_mib");
  }
  if (mib > facts.number("reserve_floor_above_mib")) reserve = std::max(reserve, facts.number("reserve_floor_mib"));
  if (settings.algorithm == "STANDALONE") {
    reserve += facts.number("reserve_standalone_mib");
  } else if (settings.speculative && settings.algorithm != "NGRAM") {
    reserve += facts.number("reserve_speculative_mib");
  }
  double fraction = round3((mib - reserve) / mib);
  if (query.model.shape.vision && !query.set.on("language-only") && !query.set.on("language-model-only"))
    fraction *= vision_factor(*query.model.shape.vision, facts.number("vision_factor"));
  return fraction;
}

// What SGLang makes of --speculative-* when they are not all given. Source: server_args.py
// _handle_speculative_decoding and auto_choose_speculative_params: EAGLE and NEXTN 3 steps, 1 candidate, 4 tokens.
void speculation(const Query& query, SglangSettings& out) {
  std::string algorithm = query.set.text("speculative-algorithm", "");
  std::transform(algorithm.begin(), algorithm.end(), algorithm.begin(),
                 [](unsigned char c) { return std::toupper(c); });
  if (algorithm.empty() || algorithm == "NONE") return;
  out.speculative = true;
  out.algorithm = algorithm == "NEXTN" ? "EAGLE" : algorithm;
  const int steps = query.set.integer("speculative-num-steps", 3);
  out.draft_tokens = query.set.integer("speculative-num-draft-tokens", out.algorithm == "DFLASH" ? 16 : steps + 1);
  const bool own_layers = out.algorithm == "EAGLE" || out.algorithm == "EAGLE3" || out.algorithm == "STANDALONE";
  if (own_layers) out.draft_layers = std::max(1, query.model.shape.mtp_layers);
  if (!out.requests) out.requests = static_cast<int>(query.facts.number("speculative_requests"));
}

}  // namespace

SglangSettings sglang_settings(const Query& query, const Layout& layout) {
  SglangSettings out;
  const EngineFacts& facts = query.facts;
  const double mib = smallest_smi_mib(query, layout);
  if (query.set.has("max-running-requests")) {
    out.requests = query.set.integer("max-running-requests", 0);
  } else if (query.concurrency) {
    out.requests = *query.concurrency;
  }
  speculation(query, out);
  for (const Value& row : facts.list("capacity")) {
    if (mib >= row.at("below_mib").get<double>()) continue;
    out.chunk = row.at("chunk").get<int>();
    out.graph_max_bs = row.at(layout.tp < 4 ? "bs" : "bs_tp4").get<int>();
    break;
  }
  out.chunk = query.set.integer("chunked-prefill-size", out.chunk);
  if (facts.flag("graph_bs_capped_by_requests") && out.requests)
    out.graph_max_bs = std::min(out.graph_max_bs, std::max(1, *out.requests));
  out.graph_max_bs =
      query.set.integer("cuda-graph-max-bs", query.set.integer("cuda-graph-max-bs-decode", out.graph_max_bs));
  out.context = asked_context(query);
  if (out.context <= 0) out.context = longest_context(query).usual;
  if (out.context <= 0) out.context = 4096;
  out.radix = !query.set.on("disable-radix-cache");
  out.page_size = std::max(1, query.set.integer("page-size", static_cast<int>(facts.number("page_size"))));
  const std::string strategy =
      query.set.text("mamba-scheduler-strategy", query.set.text("mamba-radix-cache-strategy", "auto"));
  const bool can = query.model.shape.state.kind == StateKind::gdn || query.model.shape.state.kind == StateKind::mamba2;
  out.extra_buffer = strategy == "auto" ? facts.flag("extra_buffer_default") && can && out.radix
                                        : starts_with(strategy, "extra_buffer");
  out.overlap = !query.set.on("disable-overlap-schedule");
  if (query.model.shape.hybrid() && !out.extra_buffer) out.overlap = false;
  // 0.5.9: drafts of a hybrid model without extra_buffer silently switch the radix cache off.
  if (query.model.shape.hybrid() && out.speculative && !out.extra_buffer &&
      facts.text("speculative_no_buffer") == "disables_radix")
    out.radix = false;
  out.fraction_is_automatic = !query.set.has("mem-fraction-static");
  out.fraction = out.fraction_is_automatic ? automatic_fraction(query, layout, out, mib)
                                           : query.set.number("mem-fraction-static", 0.88);
  return out;
}

}  // namespace millwright::planner
