// vLLM's memory, 0.8 to 0.32. Source: v1/worker/gpu_worker.py (determine_available_memory), v1/worker/utils.py
// (request_memory), engine/arg_utils.py (defaults), read in the published wheels.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "orchestrator/base/text.hpp"
#include "steps/server/planner/config_reader.hpp"
#include "steps/server/planner/terms.hpp"
#include "steps/server/planner/vllm_groups.hpp"

namespace millwright::planner {
namespace {

// {"method": "mtp", "num_speculative_tokens": 3} of --speculative-config.
void speculation(const Query& query, VllmSettings& out) {
  const Value config = Value::parse(query.set.text("speculative-config", ""), nullptr, false);
  if (!config.is_object()) return;
  const ConfigReader reader(config);
  out.draft_tokens = std::max(0, reader.number({"num_speculative_tokens"}, 0));
  const std::string method = reader.text({"method"}, "");
  const bool own = method.find("mtp") != std::string::npos || starts_with(method, "eagle");
  if (own) out.draft_layers = std::max(1, query.model.shape.mtp_layers);
}

double smallest_total(const Query& query, const Layout& layout) {
  double out = 1e9;
  for (int rank = 0; rank < layout.ranks(); ++rank) out = std::min(out, gpu_of_rank(query, rank).total_gib);
  return out;
}

// The dummy run of the sampler: logits of every sequence in float32, with copies. Fitted; see memory.yml.
double sampler_gib(const Query& query, const VllmSettings& settings) {
  const ModelShape& shape = query.model.shape;
  const double logits = static_cast<double>(std::min(settings.max_seqs, settings.batched)) * shape.vocab;
  const std::string flag = query.set.text("dtype", "auto");
  const double dtype = dtype_bytes(flag == "auto" ? shape.dtype : flag).value_or(2);
  const double hidden = static_cast<double>(settings.batched) * shape.hidden * dtype;
  return (logits *
              (query.facts.number("sampler_float_copies") * 4 + query.facts.number("sampler_dtype_copies") * dtype) +
          hidden) /
             kGiB +
         query.facts.number("sampler_rest_gib");
}

// Scratch of recurrent layers in prefill, which no published formula has: calibrated, see memory.yml.
Range state_scratch(const Query& query, const Layout& layout, const VllmSettings& settings) {
  if (!query.model.shape.hybrid()) return {};
  for (const Value& row : query.facts.list("state_scratch")) {
    if (gpu_of_rank(query, 0).compute >= row.at("below_compute").get<double>()) continue;
    const Value& gib = row.at("gib");
    return Range{gib[0].get<double>(), gib[1].get<double>(), gib[2].get<double>()}.times(settings.batched / 8192.0 /
                                                                                         layout.tp);
  }
  return {};
}

double activation_gib(const Query& query, const Layout& layout, const VllmSettings& settings, int stage,
                      Scenario scenario) {
  if (query.given.activation_gib) return *query.given.activation_gib;
  const ModelShape& shape = query.model.shape;
  double peak = forward_peak_gib(shape, settings.batched, layout.tp);
  if (stage + 1 == layout.pp)
    peak = std::max(peak, sampler_gib(query, settings) + expert_workspace_gib(shape, settings.batched, layout.tp));
  if (shape.vision && stage == 0) peak += query.facts.number("vision_gib");
  peak *= query.facts.number("activation_scale");
  const Range scratch = state_scratch(query, layout, settings);
  return pick({peak * 0.85 + scratch.low, peak + scratch.mid, peak * 1.2 + 0.1 + scratch.high}, scenario);
}

struct RankMemory {
  double requested = 0;
  double weights = 0;
  double activation = 0;
  double non_torch = 0;
  double graphs = 0;
  double pool = 0;
  double free_at_start = 0;
};

RankMemory memory_of_rank(const Query& query, const Layout& layout, const VllmSettings& settings, int rank,
                          Scenario scenario) {
  const Gpu& gpu = gpu_of_rank(query, rank);
  const int stage = rank / layout.tp;
  RankMemory out;
  const bool group = layout.ranks() > 1;
  const double taken = query.facts.number(layout.tp > 1 ? "init_tpn_gib" : "init_tp1_gib");
  out.free_at_start = query.given.pre_gib.value_or((gpu.free_gib >= 0 ? gpu.free_gib : gpu.total_gib) - taken);
  out.requested = std::ceil(gpu.total_gib * kGiB * settings.utilization) / kGiB;
  out.weights = weights_gib(query, layout, stage, settings.draft_layers > 0, scenario);
  if (query.given.pre_gib && query.given.post_gib && !query.given.weights_gib)
    out.weights = *query.given.pre_gib - *query.given.post_gib;
  out.activation = activation_gib(query, layout, settings, stage, scenario);
  // NVLink is what the data centre's cards have: compute capability 8.0, 9.0, 10.x.
  const bool plain = gpu.compute > 0 && (gpu.compute >= 12.0 || (gpu.compute > 8.0 && gpu.compute < 9.0));
  const char* of_tp = plain ? "non_torch_tpn_plain_gib" : "non_torch_tpn_gib";
  const char* term = layout.tp > 1 ? of_tp : group ? "non_torch_pp_gib" : "non_torch_tp1_gib";
  out.non_torch = query.given.non_torch_gib.value_or(pick(query.facts.range(term), scenario));
  const bool eager = query.set.on("enforce-eager");
  out.graphs = query.given.graphs_gib.value_or(eager ? 0 : pick(query.facts.range("graphs_gib"), scenario));
  const bool counted = query.facts.flag("graphs_in_budget");
  out.pool = out.requested - out.weights - out.activation - out.non_torch - (counted ? out.graphs : 0);
  if (query.set.has("kv-cache-memory-bytes")) out.pool = query.set.number("kv-cache-memory-bytes", 0) / kGiB;
  if (query.given.kv_pool_gib) out.pool = *query.given.kv_pool_gib;
  return out;
}

// The longest request that the blocks hold; found as vLLM finds it.
int longest_request(const BlockLayout& blocks, double usable, int most) {
  int low = 0, high = most;
  while (low < high) {
    const int middle = low + (high - low + 1) / 2;
    if (blocks_of_request(blocks, middle) <= usable) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

}  // namespace

VllmSettings vllm_settings(const Query& query, const Layout& layout) {
  VllmSettings out;
  const EngineFacts& facts = query.facts;
  const double total = smallest_total(query, layout);
  const bool a100 = gpu_of_rank(query, 0).title.find("A100") != std::string::npos;
  for (const Value& row : facts.list("capacity")) {
    const bool small = &row == &facts.list("capacity").front();
    if (total >= row.at("below_gib").get<double>() && !(small && a100 && facts.flag("a100_is_small"))) continue;
    out.batched = row.at("batched").get<int>();
    out.max_seqs = row.at("seqs").get<int>();
    break;
  }
  out.max_model_len = asked_context(query);
  if (out.max_model_len <= 0) out.max_model_len = longest_context(query).usual;
  if (out.max_model_len <= 0) out.max_model_len = 4096;
  out.max_seqs = query.set.integer("max-num-seqs", query.concurrency.value_or(out.max_seqs));
  const bool chunked =
      query.set.text("enable-chunked-prefill", "true") != "false" && !query.set.on("no-enable-chunked-prefill");
  if (!chunked) out.batched = std::max(out.batched, out.max_model_len);
  // Never more than all sequences at their longest. Source: arg_utils.py.
  out.batched = static_cast<int>(std::min<double>(out.batched, static_cast<double>(out.max_model_len) * out.max_seqs));
  out.batched = std::max(1, query.set.integer("max-num-batched-tokens", out.batched));
  out.max_seqs = std::max(
      1, query.set.has("max-num-seqs") || query.concurrency ? out.max_seqs : std::min(out.max_seqs, out.batched));
  out.utilization = query.set.number("gpu-memory-utilization", facts.number("utilization"));
  out.prefix_caching =
      !query.set.on("no-enable-prefix-caching") && query.set.text("enable-prefix-caching", "true") != "false";
  speculation(query, out);
  return out;
}

Outcome vllm_outcome(const Query& query, const Layout& layout, Scenario scenario) {
  const ModelShape& shape = query.model.shape;
  const VllmSettings settings = vllm_settings(query, layout);
  Outcome out;
  out.fraction = settings.utilization;
  out.max_model_len = settings.max_model_len;
  const BlockLayout blocks = vllm_blocks(query, layout, settings, -1);
  double count = 1e18;
  std::vector<RankMemory> memory;
  for (int rank = 0; rank < layout.ranks(); ++rank) {
    const RankMemory one = memory_of_rank(query, layout, settings, rank, scenario);
    const BlockLayout here = layout.pp > 1 ? vllm_blocks(query, layout, settings, rank / layout.tp) : blocks;
    const double fits = here.block_bytes > 0 ? std::floor(one.pool * kGiB / here.block_bytes) : count;
    if (fits < count) count = fits, out.tightest = memory.size();
    memory.push_back(one);
    if (one.free_at_start < one.requested && !query.given.kv_pool_gib) {
      out.end_at(
          Stage::before_weights,
          fmt::format("Free memory on device ({:.2f}/{:.2f} GiB) on startup is less than desired GPU memory "
                      "utilization ({:g}, {:.2f} GiB)",
                      one.free_at_start, gpu_of_rank(query, rank).total_gib, settings.utilization, one.requested),
          one.requested - one.free_at_start);
    }
    if (one.weights > one.free_at_start)
      out.end_at(Stage::weights, "Failed to load model - not enough GPU memory", one.weights - one.free_at_start);
  }
  if (query.set.has("num-gpu-blocks-override")) count = query.set.number("num-gpu-blocks-override", count);
  count = std::max(0.0, count);
  const double usable = std::max(0.0, count - query.facts.number("null_block"));
  out.most_model_len = longest_request(blocks, usable, std::max(settings.max_model_len, longest_context(query).most));
  // Auto-fit: the longest request that the pool holds, once everything else is measured (_auto_fit_max_model_len).
  if (fits_context_itself(query) && out.most_model_len > 0)
    out.max_model_len = std::min(settings.max_model_len, out.most_model_len);
  const double per_request = blocks_of_request(blocks, out.max_model_len);
  out.concurrency = per_request > 0 ? count / per_request : 0;
  const bool by_groups = query.facts.text("token_line") == "groups";
  out.kv_tokens = by_groups && !blocks.groups.empty()
                      ? std::floor(count / static_cast<double>(blocks.groups.size())) * blocks.least_block_tokens
                      : std::floor(out.concurrency * out.max_model_len);
  out.max_running = settings.max_seqs;
  out.state_slots = shape.hybrid() ? count : 0;

  const RankMemory& tight = memory[out.tightest];
  const double lacking = blocks.block_bytes * per_request / kGiB - tight.pool;
  if (tight.pool <= 0 || count < 1)
    out.end_at(Stage::pool_sizing, "ValueError: No available memory for the cache blocks.", lacking);
  if (usable < per_request && fits_context_itself(query))
    out.end_at(
        Stage::pool_sizing,
        "ValueError: Cannot auto-fit max_model_len: not enough GPU memory available to serve even a single token.",
        lacking);
  if (usable < per_request)
    out.end_at(
        Stage::one_request,
        fmt::format("ValueError: To serve at least one request with the model's max seq len ({}), ({:.2f} GiB KV "
                    "cache is needed, which is larger than the "
                    "available KV cache memory ({:.2f} GiB). Based on the available memory, the estimated maximum "
                    "model length is {}.",
                    settings.max_model_len, per_request * blocks.block_bytes / kGiB, tight.pool, out.most_model_len),
        lacking);
  if (shape.hybrid() && settings.max_seqs > count && !query.set.on("enforce-eager")) {
    if (query.facts.text("states_cap_sequences") == "refused") {
      out.end_at(
          Stage::state_slots,
          fmt::format("max_num_seqs ({}) exceeds available Mamba cache blocks ({:.0f})", settings.max_seqs, count),
          (settings.max_seqs - count) * blocks.block_bytes / kGiB);
    } else {
      out.max_running = count;
    }
  }

  // Beside its share: what CUDA graphs take when they are not inside, and the rest of the GPU.
  for (std::size_t rank = 0; rank < memory.size(); ++rank) {
    const RankMemory& one = memory[rank];
    const Gpu& gpu = gpu_of_rank(query, static_cast<int>(rank));
    const double block_bytes =
        layout.pp > 1 ? vllm_blocks(query, layout, settings, static_cast<int>(rank) / layout.tp).block_bytes
                      : blocks.block_bytes;
    const double in_blocks = count * block_bytes / kGiB;
    // A number of blocks that was asked for is allocated, whatever there is room for.
    const double pool =
        query.set.has("num-gpu-blocks-override") ? in_blocks : std::max(0.0, std::min(one.pool, in_blocks));
    RankOutcome row;
    row.total_gib = gpu.total_gib;
    row.weights_gib = one.weights;
    row.kv_pool_gib = one.pool;
    row.graphs_gib = one.graphs;
    row.activation_gib = one.activation;
    row.other_gib = one.non_torch;
    // States and tokens share one pool: what a full load of requests keeps in states.
    if (shape.hybrid() && blocks.state_blocks > 0) {
      double groups = 0;
      for (const BlockGroup& group : blocks.groups) groups += group.kind == PageKind::state ? 1 : 0;
      const double requests = std::min<double>(out.max_running, std::max(1.0, std::floor(out.concurrency)));
      row.state_gib = std::min(pool, requests * blocks.state_blocks * groups * blocks.block_bytes / kGiB);
    }
    // A tenant that was there before takes from the same GPU.
    const double tenant = gpu.free_gib >= 0 ? std::max(0.0, gpu.total_gib - gpu.free_gib) : 0;
    row.headroom_gib = gpu.total_gib - tenant - one.weights - one.activation - one.non_torch - one.graphs - pool;
    if (row.headroom_gib < 0 && !query.given.kv_pool_gib)
      out.end_at(Stage::after_pool, "torch.OutOfMemoryError: CUDA out of memory (while CUDA graphs are captured)",
                 -row.headroom_gib);
    if (!out.starts()) row.headroom_gib = -out.missing_gib;
    out.ranks.push_back(row);
  }
  return out;
}

}  // namespace millwright::planner
