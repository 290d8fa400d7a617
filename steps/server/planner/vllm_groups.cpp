#include "steps/server/planner/vllm_groups.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "orchestrator/base/text.hpp"
#include "steps/server/planner/terms.hpp"

namespace millwright::planner {
namespace {

// A kind of layer: those that may share a block table.
struct Bucket {
  PageKind kind = PageKind::full;
  int window = 0;
  double token_bytes = 0;  // attention
  double block_tokens = 0;
  double page = 0;
  std::vector<std::size_t> layers;  // of the model; draft layers count from its end
};

std::string state_dtype(const Query& query) {
  const std::string flag = query.set.text("mamba-ssm-cache-dtype", "auto");
  if (flag != "auto") return flag;
  const ModelShape& shape = query.model.shape;
  // The dtype of the states when the flag says nothing: Qwen3.5 and Nemotron-H have it in their config, KDA is float32,
  // Mamba and Qwen3-Next follow the model. Source: models/config.py, mamba_utils.py.
  if (shape.state.kind == StateKind::kda) return "float32";
  if (!shape.state_dtype.empty()) return shape.state_dtype;
  if (starts_with(shape.model_type, "nemotron_h")) return "float32";
  const std::string cache = query.set.text("mamba-cache-dtype", "auto");
  return cache == "auto" ? shape.dtype : cache;
}

double state_page(const Query& query, int tp, int draft_tokens) {
  const ModelShape& shape = query.model.shape;
  const int rows = shape.state.conv_kernel - 1 +
                   (shape.state.kind == StateKind::gdn || shape.state.kind == StateKind::mamba2 ? draft_tokens : 0);
  const double model = dtype_bytes(shape.dtype).value_or(2);
  return layer_state_bytes(shape.state, tp, rows, model, dtype_bytes(state_dtype(query)).value_or(2)).total();
}

// 656 bytes with fp8_ds_mla; an indexer has a cache of its own. Source: MLAAttentionSpec, deepseek_v2's indexer.
double token_bytes(const Query& query, const AttentionShape& attention, int tp) {
  const std::string flag = query.set.text("kv-cache-dtype", "auto");
  const double bytes = kv_dtype_bytes(flag, query.model.shape, query.set.text("dtype", "auto"));
  if (attention.mla() && flag == "fp8_ds_mla") return 656;
  double out = layer_token_bytes(attention, tp, bytes);
  if (flag == "fp8_per_token_head" || flag == "int8_per_token_head") out += 2.0 * kv_heads_on_rank(attention, tp) * 4;
  if (attention.index_dim > 0) out += attention.index_dim + attention.index_dim / 128.0 * 4;
  return out;
}

std::vector<Bucket> buckets_of(const Query& query, const Layout& layout, const VllmSettings& settings, double block) {
  const ModelShape& shape = query.model.shape;
  std::vector<Bucket> out;
  const auto add = [&](const Bucket& like, std::size_t layer) {
    for (Bucket& bucket : out) {
      if (bucket.kind != like.kind || bucket.window != like.window || bucket.token_bytes != like.token_bytes) continue;
      bucket.layers.push_back(layer);
      return;
    }
    out.push_back(like);
    out.back().layers.push_back(layer);
  };
  const bool windows = !query.set.on("disable-hybrid-kv-cache-manager");
  for (std::size_t layer = 0; layer < shape.layers.size(); ++layer) {
    if (shape.layers[layer].attention) {
      const AttentionShape& attention = *shape.layers[layer].attention;
      const int window = windows ? attention.window : 0;
      Bucket bucket;
      bucket.kind = window > 0 ? PageKind::window : PageKind::full;
      bucket.window = window;
      bucket.token_bytes = token_bytes(query, attention, layout.tp);
      bucket.block_tokens = block;
      add(bucket, layer);
    }
    if (shape.layers[layer].recurrent) {
      Bucket bucket;
      bucket.kind = PageKind::state;
      bucket.page = state_page(query, layout.tp, settings.draft_tokens);
      bucket.block_tokens = block;
      add(bucket, layer);
    }
  }
  for (int draft = 0; draft < settings.draft_layers; ++draft) {
    Bucket like;
    for (const Bucket& bucket : out) {
      if (bucket.kind == PageKind::full) like = bucket;
    }
    like.layers.clear();
    if (like.token_bytes > 0) add(like, shape.layers.size() + static_cast<std::size_t>(draft));
  }
  return out;
}

// Attention blocks of hybrids are as large as a state needs, so that all pages are equal.
double block_of_hybrid(const Query& query, const std::vector<Bucket>& buckets, double block) {
  double state = 0, token = 0;
  for (const Bucket& bucket : buckets) {
    if (bucket.kind == PageKind::state) state = std::max(state, bucket.page);
    if (bucket.kind != PageKind::state) token = std::max(token, bucket.token_bytes);
  }
  if (state <= 0 || token <= 0) return block;
  double align = std::max(query.facts.number("state_align_min"), query.set.number("block-size", 0));
  if (query.model.shape.mla()) align = std::max(align, query.facts.number("null_block") > 0 ? 128.0 : 64.0);
  return std::max(block, align * std::ceil(state / (align * token)));
}

// Layers that a stage has of a group: layers[i::groups] of the bucket.
int in_stage(const Bucket& bucket, int group, int groups, const StageLayers& range) {
  int count = 0;
  for (std::size_t at = static_cast<std::size_t>(group); at < bucket.layers.size();
       at += static_cast<std::size_t>(groups)) {
    if (bucket.layers[at] >= range.first && bucket.layers[at] < range.end) ++count;
  }
  return count;
}

}  // namespace

BlockLayout vllm_blocks(const Query& query, const Layout& layout, const VllmSettings& settings, int stage) {
  const ModelShape& shape = query.model.shape;
  double block = query.set.number("block-size", query.facts.number(shape.mla() ? "block_size_mla" : "block_size"));
  std::vector<Bucket> buckets = buckets_of(query, layout, settings, block);
  const double hybrid_block = block_of_hybrid(query, buckets, block);
  double page = 0;
  for (Bucket& bucket : buckets) {
    bucket.block_tokens = hybrid_block;
    if (bucket.kind != PageKind::state) bucket.page = bucket.token_bytes * hybrid_block;
    page = std::max(page, bucket.page);
  }
  BlockLayout out;
  out.page_bytes = page;
  out.in_flight_tokens = settings.batched * query.facts.number("in_flight_batches");
  StageLayers range{0, shape.layers.size() + static_cast<std::size_t>(settings.draft_layers)};
  if (stage >= 0) {
    const StageLayers some = stage_range(shape, layout, stage);
    range.first = some.first;
    if (stage + 1 < layout.pp) range.end = some.end;
  }
  if (buckets.empty()) return out;
  const auto size = [](const Bucket& bucket) { return static_cast<double>(bucket.layers.size()); };
  double least = 1e9, most = 0;
  for (const Bucket& bucket : buckets) {
    least = std::min(least, size(bucket));
    most = std::max(most, size(bucket));
  }
  const bool one_group = buckets.size() == 1 || std::all_of(buckets.begin(), buckets.end(),
                                                            [](const Bucket& b) { return b.kind == PageKind::full; });
  const double per_group = one_group ? most : most < least * query.facts.number("group_join_factor") ? most : least;
  double widest = 0, sum_of_full = 0;
  for (const Bucket& bucket : buckets) {
    const int groups = one_group ? 1 : static_cast<int>(std::ceil(size(bucket) / per_group));
    // A smaller page that divides the largest gets more tokens a block, else padding.
    double tokens = bucket.block_tokens;
    const double times = page / bucket.page;
    if (!one_group && bucket.kind != PageKind::state && times > 1 && times == std::floor(times)) tokens *= times;
    for (int group = 0; group < groups; ++group) {
      const int layers = in_stage(bucket, group, groups, range);
      widest = std::max<double>(widest, layers);
      sum_of_full += layers * bucket.page;
      if (one_group && !out.groups.empty()) {
        out.groups.front().layers += layers;
        continue;
      }
      out.groups.push_back({bucket.kind, layers, tokens, bucket.window});
    }
  }
  out.block_bytes = one_group ? sum_of_full : widest * page;
  out.least_block_tokens = 1e12;
  for (const BlockGroup& group : out.groups)
    out.least_block_tokens = std::min(out.least_block_tokens, group.block_tokens);
  // A state a request: align keeps the last checkpoint too. Source: MambaSpec.max_memory_usage_bytes.
  std::string mode = query.set.text("mamba-cache-mode", "auto");
  if (mode == "auto") mode = settings.prefix_caching ? query.facts.text("prefix_mode") : "none";
  out.state_blocks = (mode == "align" ? 2 : 1) + settings.draft_tokens;
  if (mode == "align" && shape.state.kind == StateKind::mamba2)
    out.state_blocks += query.facts.number("state_extra_blocks_mamba2");
  if (mode == "all") out.state_blocks = -(settings.draft_tokens + 1.0);  // one a block of tokens
  return out;
}

double blocks_of_request(const BlockLayout& blocks, double length) {
  double out = 0;
  for (const BlockGroup& group : blocks.groups) {
    switch (group.kind) {
      case PageKind::full:
        out += std::ceil(length / group.block_tokens);
        break;
      case PageKind::window: {
        const double held = std::min(group.window - 1 + blocks.in_flight_tokens, length);
        out += std::ceil(held / group.block_tokens) + 1;
        break;
      }
      case PageKind::state:
        out += blocks.state_blocks >= 0 ? blocks.state_blocks
                                        : std::ceil(length / group.block_tokens) - blocks.state_blocks - 1;
        break;
    }
  }
  return out;
}

}  // namespace millwright::planner
