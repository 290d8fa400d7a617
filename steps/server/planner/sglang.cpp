// SGLang's memory, 0.5.6 to 0.5.23. The formulas carry the names of its own functions:
// model_executor/model_runner_kv_cache_mixin.py (0.5.9), model_executor/pool_configurator.py (0.5.10 and later),
// mem_cache/kv_cache_configurator.py (0.5.19 and later), read in the published wheels.
#include "steps/server/planner/sglang.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "steps/server/planner/terms.hpp"

namespace millwright::planner {
namespace {

// Slots a running request needs. Source: _calculate_mamba_ratio; 0.5.9: in init_memory_pool.
int state_ratio(const Query& query, const SglangSettings& settings) {
  if (!settings.radix) return 1;
  const auto base = static_cast<int>(query.facts.number("state_ratio"));
  if (!settings.extra_buffer) return base;
  const bool fewer = query.facts.flag("speculative_no_overlap") ? settings.speculative : !settings.overlap;
  return base + static_cast<int>(query.facts.number(fewer ? "state_ratio_no_overlap" : "state_ratio_overlap"));
}

// With attention data parallelism the attention of a replica is split over fewer ranks: get_attention_tp_size.
int attention_tp(const Query& query, const Layout& layout) { return std::max(1, layout.tp / attention_groups(query)); }

double indexer_bytes(const AttentionShape& attention) {
  return attention.index_dim > 0 ? attention.index_dim + attention.index_dim / 128.0 * 4 : 0;
}

// MLA in fp8 with an indexer keeps scales and the rotary part in its own dtype: calculate_mla_kv_cache_dim.
double sizing_bytes(const AttentionShape& attention, int tp, double kv_bytes, const std::string& kv_dtype) {
  const bool fp4 = kv_dtype.rfind("fp4", 0) == 0;
  double bytes = layer_token_bytes(attention, tp, fp4 ? 1 : kv_bytes);
  if (fp4 && attention.mla()) bytes = bytes / 2 + (attention.latent + attention.rope) / 16.0;
  if (fp4 && !attention.mla()) bytes = bytes / 2 + kv_heads_on_rank(attention, tp) * attention.head_dim * 2 / 16.0;
  return bytes + indexer_bytes(attention);
}

}  // namespace

double sglang_slot_bytes(const Query& query, const Layout& layout) {
  const ModelShape& shape = query.model.shape;
  if (!shape.hybrid()) return 0;
  // SGLANG_MAMBA_SSM_DTYPE, --mamba-ssm-dtype, the config's own, float32.
  std::string dtype = query.set.text("mamba-ssm-dtype", "");
  if (dtype.empty()) dtype = shape.state_dtype.empty() ? query.facts.text("state_dtype") : shape.state_dtype;
  const int rows = std::max(0, shape.state.conv_kernel - 1);
  const double one = layer_state_bytes(shape.state, attention_tp(query, layout), rows,
                                       query.facts.number("conv_dtype_bytes"), dtype_bytes(dtype).value_or(4))
                         .total();
  int layers = 0;
  for (int stage = 0; stage < layout.pp; ++stage) {
    const StageLayers range = stage_range(shape, layout, stage);
    int here = 0;
    for (std::size_t layer = range.first; layer < range.end; ++layer) here += shape.layers[layer].recurrent ? 1 : 0;
    layers = std::max(layers, here);
  }
  // Before the padding slot was counted, a slot was charged for all stages.
  if (layout.pp > 1 && query.facts.number("state_padding") < 1) layers = shape.recurrent_layers();
  return one * layers;
}

SglangCell sglang_cell(const Query& query, const Layout& layout, const SglangSettings& settings, int stage) {
  const ModelShape& shape = query.model.shape;
  const std::string kv_dtype = query.set.text("kv-cache-dtype", "auto");
  const double kv_bytes = kv_dtype_bytes(kv_dtype, shape, query.set.text("dtype", "auto"));
  const bool pools = shape.window_layers() > 0 && query.facts.listed("window_architectures", shape.architecture) &&
                     !query.set.on("disable-hybrid-swa-memory");
  const StageLayers range = stage_range(shape, layout, stage);
  SglangCell out;
  for (std::size_t layer = range.first; layer < range.end; ++layer) {
    if (!shape.layers[layer].attention) continue;
    const AttentionShape& attention = *shape.layers[layer].attention;
    (pools && attention.window > 0 ? out.window : out.full) +=
        sizing_bytes(attention, attention_tp(query, layout), kv_bytes, kv_dtype);
  }
  if (settings.draft_layers > 0 && query.facts.flag("draft_in_cell") && out.full > 0) {
    const int own = std::max(1, shape.full_attention_layers());
    out.full += std::floor(out.full * settings.draft_layers / own);
  }
  const double ratio = query.set.number("swa-full-tokens-ratio", query.facts.number("window_ratio"));
  out.sizing = out.full > 0 ? out.full + ratio * out.window : out.window;
  return out;
}

SglangStates sglang_states(const Query& query, const SglangSettings& settings, double rest_bytes, double slot_bytes) {
  const EngineFacts& facts = query.facts;
  SglangStates out;
  out.ratio = state_ratio(query, settings);
  const double split = query.set.number("mamba-full-memory-ratio", facts.number("full_memory_ratio"));
  const double requests = std::floor(settings.requests.value_or(0) / static_cast<double>(attention_groups(query)));
  const double drafts = settings.speculative ? settings.draft_tokens : 0;
  double rest = rest_bytes;
  const bool joint = facts.text("state_split") == "joint";
  const double padding = facts.number("state_padding");
  if (!joint) {
    out.intermediate_bytes = slot_bytes * requests * drafts;
    rest -= out.intermediate_bytes;
  }
  if (query.set.has("max-mamba-cache-size")) {
    out.slots = query.set.integer("max-mamba-cache-size", 0);
  } else if (!settings.radix && settings.requests) {
    out.slots = requests;
  } else {
    const double budget = rest * split / (1 + split);
    const double fixed = joint ? padding * slot_bytes * (1 + drafts) : 0;
    const double each = joint ? slot_bytes * (1 + drafts / out.ratio) : slot_bytes;
    // Python's int() cuts towards zero after // has gone down: below zero it stays below.
    out.slots = std::floor((budget - fixed) / each);
  }
  if (joint && drafts > 0) {
    out.intermediate_bytes =
        slot_bytes * (std::min(std::max(1.0, requests), std::floor(out.slots / out.ratio)) + padding) * drafts;
    rest -= out.intermediate_bytes;
  }
  const double kept = joint ? out.slots + padding : out.slots;
  out.kv_bytes = rest - kept * slot_bytes;
  return out;
}

namespace {

struct Budget {
  double pre = 0;
  double post = 0;
  double slack = 0;  // (1 - f) * pre
  double rest = 0;   // GiB for states and tokens
};

// pre and post are the least over all ranks: the engine takes the minimum.
Budget budget_of(const Query& query, const Layout& layout, const SglangSettings& settings, double weights,
                 Scenario scenario) {
  Budget out;
  const Range context = query.facts.range(layout.ranks() > 1 ? "context_tpn_gib" : "context_tp1_gib");
  double least = 1e9;
  for (int rank = 0; rank < layout.ranks(); ++rank) {
    const Gpu& gpu = gpu_of_rank(query, rank);
    least = std::min(least, gpu.free_gib >= 0 ? gpu.free_gib : gpu.total_gib);
  }
  out.pre = query.given.pre_gib.value_or(least - query.given.non_torch_gib.value_or(pick(context, scenario)));
  out.post = query.given.post_gib.value_or(out.pre - weights);
  out.slack = out.pre * (1 - settings.fraction);
  out.rest = out.post - out.slack;
  if (query.model.shape.vision) out.rest -= query.facts.number("multimodal_reserve_mib") / 1024;
  return out;
}

double request_cap(const Query& query, const SglangSettings& settings, double tokens) {
  const EngineFacts& facts = query.facts;
  double cap = std::clamp(std::floor(tokens / settings.context * 512), facts.number("requests_low"),
                          facts.number("requests_high"));
  if (settings.requests)
    return facts.flag("requests_half_tokens") ? std::min<double>(*settings.requests, cap) : *settings.requests;
  if (facts.flag("requests_half_tokens")) cap = std::min(cap, std::floor(tokens / 2));
  return cap;
}

// How much more the budget must be until states and one token have room: found by halving, since slots are whole.
double missing_for_states(const Query& query, const SglangSettings& settings, double rest, double slot, double cell) {
  const auto enough = [&](double more) {
    const SglangStates states = sglang_states(query, settings, rest + more, slot);
    return states.kv_bytes >= cell && states.slots >= states.ratio;
  };
  double high = kGiB;
  while (!enough(high) && high < 4096 * kGiB) high *= 2;
  double low = 0;
  for (int step = 0; step < 40; ++step) {
    const double middle = (low + high) / 2;
    (enough(middle) ? high : low) = middle;
  }
  return high / kGiB;
}

}  // namespace

Outcome sglang_outcome(const Query& query, const Layout& layout, Scenario scenario) {
  const ModelShape& shape = query.model.shape;
  const SglangSettings settings = sglang_settings(query, layout);
  Outcome out;
  out.fraction = settings.fraction;
  out.max_model_len = settings.context;
  const bool draft_counted = query.facts.flag("draft_in_cell");
  const bool mtp = settings.speculative && shape.mtp_layers > 0;
  double weights = 0;
  for (int stage = 0; stage < layout.pp; ++stage)
    weights = std::max(weights, weights_gib(query, layout, stage, mtp && draft_counted, scenario));
  if (query.given.pre_gib && query.given.post_gib && !query.given.weights_gib)
    weights = *query.given.pre_gib - *query.given.post_gib;
  const Budget budget = budget_of(query, layout, settings, weights, scenario);

  // The pool: states first, then tokens.
  double rest = budget.rest * kGiB, slot = sglang_slot_bytes(query, layout);
  SglangStates states;
  states.kv_bytes = rest;
  if (shape.hybrid()) states = sglang_states(query, settings, rest, slot);
  out.state_slots = shape.hybrid() ? std::max(0.0, states.slots) : 0;
  const double kv_bytes = query.given.kv_pool_gib ? *query.given.kv_pool_gib * kGiB : states.kv_bytes;
  double tokens = 0, cell_bytes = 0;
  for (int stage = 0; stage < layout.pp; ++stage) {
    const SglangCell cell = sglang_cell(query, layout, settings, stage);
    if (cell.sizing <= 0) continue;
    const double here = std::floor(kv_bytes / cell.sizing);
    if (cell_bytes <= 0 || here < tokens) tokens = here, cell_bytes = cell.sizing;
  }
  // Nothing to keep per token: the pool is as long as one request (_zero_kv_max_tokens).
  if (shape.attention_layers() == 0 && kv_bytes >= 0) tokens = settings.context;
  if (query.set.has("max-total-tokens")) tokens = std::min(tokens, query.set.number("max-total-tokens", tokens));
  tokens = std::floor(tokens / settings.page_size) * settings.page_size;
  out.kv_tokens = std::max(0.0, tokens);
  out.concurrency = out.kv_tokens / settings.context;
  out.most_model_len = static_cast<int>(std::min<double>(out.kv_tokens, 2e9));
  out.max_running = request_cap(query, settings, out.kv_tokens);
  if (shape.hybrid())
    out.max_running = std::min(out.max_running, std::floor(std::max(0.0, states.slots) / states.ratio));

  // What must fit beside it.
  const Range graphs = query.facts.range("graphs_gib");
  const bool no_graphs = query.set.on("disable-cuda-graph");
  const double graphs_gib = query.given.graphs_gib.value_or(no_graphs ? 0 : pick(graphs, scenario));
  const double peak = forward_peak_gib(shape, std::max(settings.chunk, 2048), layout.tp);
  const double activation = query.given.activation_gib.value_or(pick({peak * 0.7, peak, peak * 1.4}, scenario));
  const double table = (out.max_running + 1) * (settings.context + 4 + settings.draft_tokens) * 4 / kGiB;
  double draft = 0;
  if (mtp && !draft_counted) {
    Query with = query;
    with.given.weights_gib.reset();
    draft = weights_gib(with, layout, layout.pp - 1, true, scenario) -
            weights_gib(with, layout, layout.pp - 1, false, scenario);
    draft += out.kv_tokens * cell_bytes * settings.draft_layers / std::max(1, shape.full_attention_layers()) / kGiB;
  }
  const double beside = budget.slack - graphs_gib - activation - table - draft;
  const double state_gib = (states.intermediate_bytes + (out.state_slots + (shape.hybrid() ? 1 : 0)) * slot) / kGiB;

  if (budget.post < 0)
    out.end_at(Stage::weights, "torch.OutOfMemoryError: CUDA out of memory (while the weights are loaded)",
               -budget.post);
  const double least_cell = std::max(1.0, cell_bytes);
  const bool sized = !query.given.kv_pool_gib;
  const bool no_state = shape.hybrid() && sized && (out.state_slots < states.ratio || states.kv_bytes < least_cell);
  const double missing =
      no_state ? missing_for_states(query, settings, rest, slot, least_cell) : (least_cell - kv_bytes) / kGiB;
  if (shape.hybrid() && sized && query.facts.text("state_split") == "joint" && states.slots <= 0)
    out.end_at(Stage::state_slots,
               "RuntimeError: Not enough GPU memory for hybrid (mamba/linear-attention) state cache", missing);
  if (out.kv_tokens <= 0)
    out.end_at(Stage::pool_sizing, "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.",
               missing);
  if (shape.hybrid() && sized && out.max_running < 1)
    out.end_at(Stage::state_slots,
               fmt::format("max_running_request is zero: {} state slots, and one request takes {}", out.state_slots,
                           states.ratio),
               missing);
  if (!shape.hybrid() && sized && out.max_running < 1)
    out.end_at(Stage::pool_sizing, "AssertionError: max_running_request is zero", 2 * least_cell / kGiB);
  if (beside < 0)
    out.end_at(Stage::after_pool,
               "torch.OutOfMemoryError: CUDA out of memory (after the pools: graphs, warm-up or the first long prompt)",
               -beside);

  for (int rank = 0; rank < layout.ranks(); ++rank) {
    RankOutcome one;
    one.total_gib = gpu_of_rank(query, rank).total_gib;
    one.weights_gib = weights_gib(query, layout, rank / layout.tp, mtp && draft_counted, scenario);
    if (query.given.pre_gib && query.given.post_gib && !query.given.weights_gib) one.weights_gib = weights;
    one.kv_pool_gib = query.given.kv_pool_gib.value_or(out.kv_tokens * cell_bytes / kGiB);
    one.state_gib = shape.hybrid() ? state_gib : 0;
    one.graphs_gib = graphs_gib;
    one.activation_gib = activation;
    one.other_gib = std::max(0.0, one.total_gib - budget.pre) + table + draft;
    one.headroom_gib = out.starts() ? beside : -out.missing_gib;
    out.ranks.push_back(one);
  }
  if (!out.starts() && out.kv_tokens <= 0 && !query.given.kv_pool_gib) {
    // Below zero there is nothing to split: the whole of the budget is what is missing.
    const double left = budget.rest < 0 ? budget.rest : states.kv_bytes / kGiB;
    for (RankOutcome& one : out.ranks) one.kv_pool_gib = std::min(0.0, left);
  }
  return out;
}

}  // namespace millwright::planner
