// llama.cpp's memory. Source: src/llama-kv-cache.cpp, src/llama-kv-cache-iswa.cpp, src/llama-memory-recurrent.cpp,
// common/fit.cpp of 0.7.0 (build 11669); the buffers that it prints at verbosity 4.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "orchestrator/base/text.hpp"
#include "steps/server/planner/llama_cpp.hpp"
#include "steps/server/planner/terms.hpp"

namespace millwright::planner {
namespace {

double padded(double value, double step) { return std::ceil(value / step) * step; }

// Bytes of an element, with the scales of its block.
double cache_type_bytes(const std::string& type) {
  if (type == "q8_0") return 34.0 / 32;
  if (type == "q5_1") return 24.0 / 32;
  if (type == "q5_0") return 22.0 / 32;
  if (type == "q4_1") return 20.0 / 32;
  if (type == "q4_0" || type == "iq4_nl") return 18.0 / 32;
  if (type == "f32") return 4;
  return 2;  // f16, bf16
}

}  // namespace

LlamaSettings llama_settings(const Query& query) {
  LlamaSettings out;
  const EngineFacts& facts = query.facts;
  const bool slots_set = query.set.has("parallel") || query.concurrency.has_value();
  out.slots = query.set.integer("parallel", query.concurrency.value_or(static_cast<int>(facts.number("slots"))));
  if (out.slots <= 0) out.slots = static_cast<int>(facts.number("slots"));
  out.unified = query.set.on("kv-unified") || !slots_set;
  // --ctx-size is shared by the slots that have streams of their own; --context is one request's.
  const double asked = query.context.value_or(0) * static_cast<double>(out.unified ? 1 : out.slots);
  const int said = query.set.has("ctx-size") ? query.set.integer("ctx-size", 0) : whole_of(asked);
  out.context_set = said > 0;
  out.context = said > 0 ? said : query.model.shape.max_positions;
  if (out.context <= 0) out.context = 4096;
  out.ubatch = query.set.integer("ubatch-size", static_cast<int>(facts.number("ubatch")));
  out.k_bytes = cache_type_bytes(query.set.text("cache-type-k", "f16"));
  out.v_bytes = cache_type_bytes(query.set.text("cache-type-v", "f16"));
  const std::string type = query.set.text("spec-type", "");
  out.mtp = type.find("mtp") != std::string::npos;
  if (!type.empty() && type != "none") out.draft_tokens = query.set.integer("spec-draft-n-max", 3);
  return out;
}

// Cells of all streams, of layers with and without a window.
LlamaCells llama_cells(const Query& query, const LlamaSettings& settings) {
  const double pad = query.facts.number("pad");
  LlamaCells out;
  const double streams = settings.unified ? 1 : settings.slots;
  const double each = padded(std::ceil(settings.context / streams), pad);
  out.full = each * streams;
  const int window = query.model.shape.largest_window();
  if (window <= 0) return out;
  const double sequences = settings.unified ? settings.slots : 1;
  out.window =
      query.set.on("swa-full") ? out.full : std::min(each, padded(window * sequences + settings.ubatch, pad)) * streams;
  return out;
}

double llama_kv_bytes(const Query& query, const LlamaSettings& settings, std::size_t first, std::size_t end) {
  const LlamaCells cells = llama_cells(query, settings);
  double out = 0;
  for (std::size_t layer = first; layer < end; ++layer) {
    if (!query.model.shape.layers[layer].attention) continue;
    const AttentionShape& attention = *query.model.shape.layers[layer].attention;
    const double here = attention.window > 0 ? cells.window : cells.full;
    if (attention.mla()) {
      out += here * (attention.latent + attention.rope) * settings.k_bytes;
    } else {
      out +=
          here * attention.kv_heads * (attention.head_dim * settings.k_bytes + attention.v_head_dim * settings.v_bytes);
    }
  }
  return out;
}

// n_embd_r and n_embd_s of llama-hparams.cpp, always f32, a copy more for each drafted token.
double llama_state_bytes(const Query& query, const LlamaSettings& settings, std::size_t first, std::size_t end) {
  const StateShape& state = query.model.shape.state;
  if (state.kind == StateKind::none) return 0;
  const double one = layer_state_bytes(state, 1, std::max(0, state.conv_kernel - 1), 4, 4).total();
  double layers = 0;
  for (std::size_t layer = first; layer < end; ++layer) layers += query.model.shape.layers[layer].recurrent ? 1 : 0;
  return one * layers * settings.slots * (1 + settings.draft_tokens);
}

namespace {

// The graph's scratch: logits of a micro-batch, and the widest rows of a layer, both f32. A quantised cache is
// unpacked once more, as long as the context (unsloth #6718).
double compute_gib(const Query& query, const LlamaSettings& settings, Scenario scenario) {
  const ModelShape& shape = query.model.shape;
  const double logits = static_cast<double>(settings.ubatch) * shape.vocab * 4;
  double widest = 0;
  for (const LayerShape& layer : shape.layers)
    widest = std::max<double>(widest, layer.mlp_width * 2.0 + shape.hidden * 4.0);
  const double rows = settings.ubatch * widest * 4;
  double unpacked = 0;
  if (settings.k_bytes < 2 || settings.v_bytes < 2) {
    const LlamaCells cells = llama_cells(query, settings);
    const AttentionShape* attention = shape.first_attention();
    if (attention != nullptr)
      unpacked = cells.full * attention->kv_heads * (attention->head_dim + attention->v_head_dim) * 2.0;
  }
  const double gib = (logits + rows + unpacked) / kGiB;
  return pick({gib * 0.7, gib, gib * 1.5}, scenario) + pick(query.facts.range("compute_base_mib"), scenario) / 1024;
}

// The end of each device's part of the layers, as a share of all: by --tensor-split, else by what is free.
std::vector<double> split_points(const Query& query, int ranks) {
  const auto parts = split(query.set.text("tensor-split", ""), ',');
  std::vector<double> out;
  double sum = 0;
  for (std::size_t rank = 0; rank < static_cast<std::size_t>(ranks); ++rank) {
    const Gpu& gpu = gpu_of_rank(query, static_cast<int>(rank));
    const double free = gpu.free_gib >= 0 ? gpu.free_gib : gpu.total_gib;
    sum += rank < parts.size() && !parts[rank].empty() ? std::atof(parts[rank].c_str()) : parts.size() > 1 ? 0 : free;
    out.push_back(sum);
  }
  for (double& point : out) point = sum > 0 ? point / sum : 1;
  return out;
}

// Which device has each layer, and the output behind them; -1: the CPU, which always has the token embedding.
// Source: llama_model::load_tensors, get_layer_buft_list.
std::vector<int> devices_of_layers(const Query& query, int ranks) {
  const int layers = static_cast<int>(query.model.shape.layers.size());
  const std::string said = query.set.text("n-gpu-layers", "all");
  const bool all = said == "all" || said == "auto" || said == "-1";
  const int wanted = std::min(all ? layers + 1 : query.set.integer("n-gpu-layers", layers + 1), layers + 1);
  const int first = layers + 1 - wanted;
  const bool one = query.set.text("split-mode") == "none";
  const auto points = split_points(query, ranks);
  std::vector<int> out(static_cast<std::size_t>(layers) + 1, -1);
  for (int layer = first; layer <= layers; ++layer) {
    const double at = static_cast<double>(static_cast<float>(layer - first) / static_cast<float>(wanted));
    const auto device = std::upper_bound(points.begin(), points.end(), at) - points.begin();
    out[static_cast<std::size_t>(layer)] = one ? std::clamp(query.set.integer("main-gpu", 0), 0, ranks - 1)
                                               : std::min(static_cast<int>(device), ranks - 1);
  }
  return out;
}

// Layers whose experts stay with the CPU.
std::size_t layers_without_experts(const Query& query) {
  const bool all = query.set.on("cpu-moe") || query.set.text("override-tensor").find("exps=CPU") != std::string::npos;
  return all ? query.model.shape.layers.size() : static_cast<std::size_t>(query.set.integer("n-cpu-moe", 0));
}

struct DeviceMemory {
  double weights = 0;  // GiB, as are all
  double kv = 0;
  double states = 0;
};

std::vector<DeviceMemory> memory_of_devices(const Query& query, const LlamaSettings& settings, int ranks) {
  const WeightParts& parts = query.model.weights;
  const auto devices = devices_of_layers(query, ranks);
  const std::size_t layers = query.model.shape.layers.size(), bare = layers_without_experts(query);
  const bool offload = !query.set.on("no-kv-offload");
  std::vector<DeviceMemory> out(static_cast<std::size_t>(ranks));
  for (std::size_t layer = 0; layer < layers; ++layer) {
    if (devices[layer] < 0) continue;
    DeviceMemory& device = out[static_cast<std::size_t>(devices[layer])];
    const double experts = layer < bare ? 0 : parts.layer_experts[layer];
    device.weights +=
        (parts.layer_split[layer] + parts.layer_replicated[layer] + parts.layer_kv[layer] + experts) / kGiB;
    if (offload) device.kv += llama_kv_bytes(query, settings, layer, layer + 1) / kGiB;
    if (offload) device.states += llama_state_bytes(query, settings, layer, layer + 1) / kGiB;
  }
  out.front().weights += (parts.vision + query.model.mmproj_bytes) / kGiB;
  if (devices.back() < 0) return out;
  // Without a head of its own the output is a second copy of the token embedding.
  DeviceMemory& last = out[static_cast<std::size_t>(devices.back())];
  last.weights += ((parts.tied ? parts.embedding : parts.head) + parts.other + (settings.mtp ? parts.mtp : 0)) / kGiB;
  if (settings.mtp && offload)
    last.kv += llama_cells(query, settings).full * query.model.shape.mtp_layers * 4096.0 / kGiB;
  return out;
}

void end_where_it_lacks(Outcome& out, double worst) {
  if (worst >= 0) return;
  const RankOutcome& tight = out.ranks[out.tightest];
  const bool weights_alone = tight.headroom_gib + tight.kv_pool_gib + tight.state_gib + tight.activation_gib < 0;
  out.end_at(weights_alone ? Stage::weights : Stage::pool_sizing,
             weights_alone ? "cudaMalloc failed: out of memory (unable to allocate the model's buffer)"
                           : "failed to allocate buffer for kv cache",
             -worst);
}

// With this context, and no other.
Outcome outcome_with(const Query& query, const Layout& layout, Scenario scenario, const LlamaSettings& settings) {
  const int ranks = layout.ranks();
  Outcome out;
  out.fraction = 1;
  out.max_model_len = settings.unified ? settings.context : settings.context / std::max(1, settings.slots);
  const double compute = query.given.activation_gib.value_or(compute_gib(query, settings, scenario));
  const double context = query.given.non_torch_gib.value_or(pick(query.facts.range("context_gib"), scenario));
  const auto devices = memory_of_devices(query, settings, ranks);
  const double doubt = weight_doubt(query.model.weight_source);
  double worst = 1e9;
  for (int rank = 0; rank < ranks; ++rank) {
    const Gpu& gpu = gpu_of_rank(query, rank);
    const DeviceMemory& device = devices[static_cast<std::size_t>(rank)];
    RankOutcome one;
    one.total_gib = gpu.total_gib;
    one.weights_gib = query.given.weights_gib.value_or(pick(Range::around(device.weights, doubt), scenario));
    one.kv_pool_gib = query.given.kv_pool_gib.value_or(device.kv);
    one.state_gib = device.states;
    one.activation_gib = compute;
    one.other_gib = context;
    const double room = query.given.pre_gib.value_or((gpu.free_gib >= 0 ? gpu.free_gib : gpu.total_gib) - context);
    one.headroom_gib = room - one.weights_gib - one.kv_pool_gib - one.state_gib - compute;
    if (one.headroom_gib < worst) worst = one.headroom_gib, out.tightest = static_cast<std::size_t>(rank);
    out.ranks.push_back(one);
  }
  out.kv_tokens = llama_cells(query, settings).full;
  out.state_slots = query.model.shape.hybrid() ? settings.slots : 0;
  out.max_running = settings.slots;
  out.concurrency = settings.unified ? 1 : settings.slots;
  out.most_model_len = static_cast<int>(out.kv_tokens / (settings.unified ? 1 : settings.slots));
  end_where_it_lacks(out, worst);
  return out;
}

}  // namespace

// --fit lowers a context that was not given, in steps of 256, until each device keeps its margin; common/fit.cpp.
Outcome llama_cpp_outcome(const Query& query, const Layout& layout, Scenario scenario) {
  LlamaSettings settings = llama_settings(query);
  const Outcome whole = outcome_with(query, layout, scenario, settings);
  const double margin = query.set.number("fit-target", query.facts.number("fit_margin_mib")) / 1024;
  const auto keeps_margin = [&](const Outcome& one) {
    return one.starts() && one.ranks[one.tightest].headroom_gib >= margin;
  };
  if (settings.context_set || query.set.text("fit", "on") == "off" || keeps_margin(whole)) return whole;
  const int step = static_cast<int>(query.facts.number("pad"));
  int low = query.set.integer("fit-ctx", static_cast<int>(query.facts.number("fit_least_context"))) / step;
  int high = settings.context / step;
  const auto at = [&](int steps) {
    settings.context = steps * step;
    return outcome_with(query, layout, scenario, settings);
  };
  if (low >= high || !keeps_margin(at(low))) return whole;
  while (low < high) {
    const int middle = low + (high - low + 1) / 2;
    if (keeps_margin(at(middle))) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return at(low);
}

}  // namespace millwright::planner
