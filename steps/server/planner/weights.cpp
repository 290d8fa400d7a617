#include "steps/server/planner/weights.hpp"

#include <algorithm>
#include <cctype>
#include <numeric>

#include "orchestrator/base/text.hpp"

namespace millwright::planner {
namespace {

double sum(const std::vector<double>& values) { return std::accumulate(values.begin(), values.end(), 0.0); }

// Adds up one layer of a model of which only the config is known.
class LayerEstimate {
 public:
  explicit LayerEstimate(const ModelShape& shape) : shape_(shape) {
    plain_ = dtype_bytes(shape.dtype).value_or(2);
    const bool packed = shape.quant.linear_bits > 0;
    expert_ = packed ? shape.quant.linear_bits / 8 : plain_;
    matrix_ = packed && !shape.quant.experts_only ? shape.quant.linear_bits / 8 : plain_;
  }

  void add(const LayerShape& layer, WeightParts& parts) const {
    double split = 0, replicated = 2.0 * shape_.hidden * plain_, kv = 0, experts = 0;
    if (layer.attention && layer.attention->mla()) {
      latent_attention(*layer.attention, split, replicated);
    } else if (layer.attention) {
      const AttentionShape& attention = *layer.attention;
      const double queries = static_cast<double>(attention.heads) * attention.head_dim;
      split += matrix_ * shape_.hidden * queries * (shape_.attention_gate ? 2 : 1);
      split += matrix_ * shape_.hidden * attention.heads * attention.v_head_dim;
      kv += matrix_ * shape_.hidden * attention.kv_heads * (attention.head_dim + attention.v_head_dim);
    }
    if (layer.recurrent) split += recurrent();
    parts.layer_attention.push_back(split);
    if (layer.experts) {
      const double one = (shape_.gated_mlp ? 3.0 : 2.0) * shape_.hidden * shape_.experts.width;
      experts += expert_ * one * shape_.experts.count;
      split += matrix_ * (shape_.gated_mlp ? 3.0 : 2.0) * shape_.hidden * shape_.experts.shared_width;
      replicated += plain_ * shape_.hidden * shape_.experts.count;
    } else if (layer.mlp_width > 0) {
      split += matrix_ * (shape_.gated_mlp ? 3.0 : 2.0) * shape_.hidden * layer.mlp_width;
    }
    parts.layer_split.push_back(split);
    parts.layer_replicated.push_back(replicated);
    parts.layer_kv.push_back(kv);
    parts.layer_experts.push_back(experts);
  }
  double plain() const { return plain_; }

 private:
  // DeepSeek-V2 and later: modeling_deepseek_v3.py.
  void latent_attention(const AttentionShape& attention, double& split, double& replicated) const {
    const double heads = attention.heads;
    const double query_width = heads * attention.head_dim;
    replicated += matrix_ * shape_.hidden * (attention.latent + attention.rope);
    if (shape_.q_lora > 0) {
      replicated += matrix_ * shape_.hidden * shape_.q_lora;
      split += matrix_ * shape_.q_lora * query_width;
    } else {
      split += matrix_ * shape_.hidden * query_width;
    }
    split += matrix_ * attention.latent * heads * (attention.head_dim - attention.rope + attention.v_head_dim);
    split += matrix_ * shape_.hidden * heads * attention.v_head_dim;
    if (attention.index_dim > 0) {
      // The indexer has 64 heads in every DSA model published so far (DeepSeek-V3.2, GLM-5).
      replicated +=
          matrix_ * (shape_.q_lora * 64.0 * attention.index_dim + shape_.hidden * (attention.index_dim + 64.0));
    }
  }

  double recurrent() const {
    const StateShape& state = shape_.state;
    const double inner = static_cast<double>(state.heads) * state.head_dim;
    const double keys = static_cast<double>(state.groups) * state.state;
    switch (state.kind) {
      case StateKind::gdn:  // in_proj_qkvz, in_proj_ba, conv1d, out_proj
        return matrix_ * shape_.hidden * (2 * keys + 2 * inner + 2 * state.heads) + matrix_ * inner * shape_.hidden +
               plain_ * (inner + 2 * keys) * state.conv_kernel;
      case StateKind::kda:  // q, k, v, o, and two low-rank gates
        return matrix_ * shape_.hidden * 4 * inner + matrix_ * 2 * state.head_dim * (shape_.hidden + inner) +
               plain_ * 3 * inner * state.conv_kernel;
      case StateKind::mamba2:  // in_proj (z, x, B, C, dt), conv1d, out_proj
        return matrix_ * shape_.hidden * (2 * inner + 2 * keys + state.heads) + matrix_ * inner * shape_.hidden +
               plain_ * (inner + 2 * keys) * state.conv_kernel;
      case StateKind::mamba1:  // in_proj (x, z), x_proj, dt_proj, conv1d, A, out_proj
        return matrix_ * shape_.hidden * 3 * inner +
               plain_ * inner * (shape_.hidden / 16.0 * 2 + 3.0 * state.state + state.conv_kernel);
      case StateKind::short_conv:  // in_proj (B, C, x), conv, out_proj
        return matrix_ * 4.0 * shape_.hidden * shape_.hidden + plain_ * shape_.hidden * state.conv_kernel;
      case StateKind::none:
        break;
    }
    return 0;
  }

  const ModelShape& shape_;
  double plain_ = 2;
  double matrix_ = 2;
  double expert_ = 2;
};

double vision_bytes(const VisionShape& vision, double plain) {
  const double block = 4.0 * vision.hidden * vision.hidden + 2.0 * vision.hidden * vision.mlp_width;
  const double merger = 4.0 * vision.hidden * (4.0 * vision.hidden + vision.merger_out);
  return plain * (vision.depth * block + merger + 1200.0 * vision.hidden);
}

bool contains_any(const std::string& text, std::initializer_list<const char*> words) {
  return std::any_of(words.begin(), words.end(),
                     [&](const char* word) { return text.find(word) != std::string::npos; });
}

// The number after ".layers." (".h.", "blk."), or -1.
int layer_of(const std::string& name) {
  for (const char* mark : {"layers.", ".h.", "blk.", ".blocks."}) {
    const std::size_t at = name.find(mark);
    if (at == std::string::npos) continue;
    const std::size_t from = at + std::string_view(mark).size();
    if (from >= name.size() || std::isdigit(static_cast<unsigned char>(name[from])) == 0) continue;
    const std::string digits = name.substr(from, name.find_first_not_of("0123456789", from) - from);
    if (digits.size() <= 5) return std::stoi(digits);
  }
  return -1;
}

bool is_vision(const std::string& name) {
  return contains_any(
      name, {"visual.", "vision_tower", "vision_model", "vision_encoder", "vision_embed", "multi_modal_projector",
             "mm_projector", "audio_tower", "patch_merger", "image_newline", "vision_adapter"});
}

}  // namespace

double WeightParts::total() const {
  return embedding + head + sum(layer_split) + sum(layer_replicated) + sum(layer_kv) + sum(layer_experts) + vision +
         other;
}

WeightParts weights_of_config(const ModelShape& shape) {
  WeightParts parts;
  const LayerEstimate estimate(shape);
  parts.embedding = estimate.plain() * shape.vocab * shape.hidden;
  parts.head = shape.tied_embeddings ? 0 : parts.embedding;
  parts.tied = shape.tied_embeddings;
  parts.embedded_dtype_bytes = estimate.plain();
  for (const LayerShape& layer : shape.layers) estimate.add(layer, parts);
  parts.other = estimate.plain() * shape.hidden;
  if (shape.vision) parts.vision = vision_bytes(*shape.vision, estimate.plain());
  if (shape.mtp_layers > 0 && !shape.layers.empty()) {
    // A draft layer is one of the model's own with attention, and a projection of twice the width.
    WeightParts one;
    LayerShape layer = shape.layers.back();
    for (const LayerShape& candidate : shape.layers) {
      if (candidate.attention) layer = candidate;
    }
    layer.recurrent = false;
    estimate.add(layer, one);
    parts.mtp = shape.mtp_layers * (one.total() + estimate.plain() * 2.0 * shape.hidden * shape.hidden);
  }
  return parts;
}

WeightParts weights_of_tensors(const ModelShape& shape, const std::vector<TensorInfo>& tensors) {
  WeightParts parts;
  const std::size_t layers = shape.layers.size();
  parts.layer_split.resize(layers);
  parts.layer_attention.resize(layers);
  parts.layer_replicated.resize(layers);
  parts.layer_kv.resize(layers);
  parts.layer_experts.resize(layers);
  for (const TensorInfo& tensor : tensors) {
    const std::string& name = tensor.name;
    const int number = layer_of(name);
    if (is_vision(name) || starts_with(name, "v.") || starts_with(name, "mm.")) {
      parts.vision += tensor.bytes;
    } else if (contains_any(name, {"mtp.", "nextn.", "eh_proj", "mtp_"}) || number >= static_cast<int>(layers)) {
      parts.mtp += tensor.bytes;
    } else if (number >= 0) {
      const auto layer = static_cast<std::size_t>(number);
      if (contains_any(name, {"experts.", "_exps."}) && !contains_any(name, {"shared_expert"})) {
        parts.layer_experts[layer] += tensor.bytes;
      } else if (contains_any(name, {"norm", "kv_a_proj", "q_a_proj", "mlp.gate.", "router", "attn_q_a", "attn_kv_a",
                                     "ffn_gate_inp", "indexer"})) {
        parts.layer_replicated[layer] += tensor.bytes;
      } else if (contains_any(name, {"k_proj", "v_proj", "attn_k.", "attn_v."})) {
        parts.layer_kv[layer] += tensor.bytes;
      } else {
        parts.layer_split[layer] += tensor.bytes;
        // self_attn, linear_attn, mamba, mixer; attn_q, attn_output and ssm_ of a GGUF.
        if (contains_any(name, {"attn", "attention", "mamba", "mixer", "ssm_"}))
          parts.layer_attention[layer] += tensor.bytes;
      }
    } else if (contains_any(name, {"lm_head", "output.weight"}) && !contains_any(name, {"norm"})) {
      parts.head += tensor.bytes;
    } else if (contains_any(name, {"embed_tokens", "wte.", "token_embd", "word_embeddings", "embeddings.weight",
                                   "embedding.weight"})) {
      parts.embedding += tensor.bytes;
      parts.embedded_dtype_bytes = dtype_bytes(tensor.dtype).value_or(2);
    } else {
      parts.other += tensor.bytes;
    }
  }
  parts.tied = parts.head <= 0;
  // A tied model's checkpoint may carry the head all the same; the engines drop it.
  if (shape.tied_embeddings && parts.head > 0 && parts.embedding > 0) {
    parts.head = 0;
    parts.tied = true;
  }
  return parts;
}

std::vector<int> stage_layers(int layers, int pp) {
  const int stages = std::max(1, pp);
  std::vector<int> out(static_cast<std::size_t>(stages), layers / stages);
  const int rest = layers % stages;
  // From the last but one backwards; with no stage left between first and last, the earliest takes it.
  for (int extra = 0; extra < rest; ++extra) {
    const int at = stages - 2 - extra;
    out[static_cast<std::size_t>(at >= 0 ? at : stages - 1)] += 1;
  }
  return out;
}

double weights_on_stage(const WeightParts& parts, const ModelShape& shape, const LoadOptions& options, int stage) {
  const std::vector<int> counts = options.stage_layers.empty()
                                      ? stage_layers(static_cast<int>(parts.layer_split.size()), options.pp)
                                      : options.stage_layers;
  std::size_t first = 0;
  for (int before = 0; before < stage; ++before)
    first += static_cast<std::size_t>(counts[static_cast<std::size_t>(before)]);
  const std::size_t end =
      std::min(parts.layer_split.size(), first + static_cast<std::size_t>(counts[static_cast<std::size_t>(stage)]));
  const double tp = std::max(1, options.tp);
  const double attention_tp = options.attention_tp > 0 ? options.attention_tp : tp;
  const double embedding = parts.embedding / (options.embedding_split ? tp : 1);
  const double matrices = options.linear_factor;
  double linear = 0, plain = 0;
  for (std::size_t layer = first; layer < end; ++layer) {
    const int kv_heads = shape.layers[layer].attention ? shape.layers[layer].attention->kv_heads : 1;
    const double attention = layer < parts.layer_attention.size() ? parts.layer_attention[layer] : 0;
    linear += (parts.layer_split[layer] - attention) / tp + attention / attention_tp;
    linear += parts.layer_experts[layer] / tp / std::max(1, options.ep);
    linear += parts.layer_kv[layer] / std::min<double>(attention_tp, std::max(1, kv_heads));
    plain += parts.layer_replicated[layer];
  }
  const bool last = stage + 1 == static_cast<int>(counts.size());
  if (stage == 0) plain += embedding;
  if (last && stage > 0 && parts.tied) plain += embedding;
  if (last) plain += parts.head / tp + parts.other;
  if (options.with_vision && stage == 0) plain += options.vision_split ? parts.vision / tp : parts.vision;
  if (options.with_mtp && last) linear += parts.mtp / tp;
  return (linear * matrices + plain) * options.dtype_factor;
}

}  // namespace millwright::planner
