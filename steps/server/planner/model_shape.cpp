#include "steps/server/planner/model_shape.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "orchestrator/base/text.hpp"
#include "steps/server/planner/config_reader.hpp"
#include "steps/server/planner/quantity.hpp"

namespace millwright::planner {

int ModelShape::attention_layers() const {
  return static_cast<int>(
      std::count_if(layers.begin(), layers.end(), [](const LayerShape& layer) { return layer.attention.has_value(); }));
}

int ModelShape::full_attention_layers() const { return attention_layers() - window_layers(); }

int ModelShape::window_layers() const {
  return static_cast<int>(std::count_if(layers.begin(), layers.end(), [](const LayerShape& layer) {
    return layer.attention && layer.attention->window > 0;
  }));
}

int ModelShape::recurrent_layers() const {
  return static_cast<int>(
      std::count_if(layers.begin(), layers.end(), [](const LayerShape& layer) { return layer.recurrent; }));
}

int ModelShape::largest_window() const {
  int out = 0;
  for (const LayerShape& layer : layers) out = std::max(out, layer.attention ? layer.attention->window : 0);
  return out;
}

const AttentionShape* ModelShape::first_attention() const {
  for (const LayerShape& layer : layers) {
    if (layer.attention) return &*layer.attention;
  }
  return nullptr;
}

bool ModelShape::mla() const {
  const AttentionShape* first = first_attention();
  return first != nullptr && first->mla();
}

std::optional<double> dtype_bytes(const std::string& name) {
  std::string word = name;
  std::transform(word.begin(), word.end(), word.begin(), [](unsigned char c) { return std::tolower(c); });
  word = replace_all(word, "torch.", "");
  static const std::map<std::string, double> known = {
      {"float64", 8}, {"f64", 8},     {"float32", 4},       {"float", 4},       {"f32", 4},     {"fp32", 4},
      {"int32", 4},   {"i32", 4},     {"bfloat16", 2},      {"bf16", 2},        {"float16", 2}, {"half", 2},
      {"f16", 2},     {"fp16", 2},    {"int16", 2},         {"i16", 2},         {"int8", 1},    {"i8", 1},
      {"u8", 1},      {"uint8", 1},   {"bool", 1},          {"i64", 8},         {"int64", 8},   {"f8_e4m3", 1},
      {"f8_e5m2", 1}, {"f8_e8m0", 1}, {"float8_e4m3fn", 1}, {"float8_e5m2", 1}, {"f4", 0.5},    {"u32", 4}};
  if (const auto found = known.find(word); found != known.end()) return found->second;
  if (starts_with(word, "fp8") || starts_with(word, "int8") || word == "mxfp8") return 1;
  if (starts_with(word, "fp4") || starts_with(word, "nvfp4") || starts_with(word, "int4")) return 0.5;
  return {};
}

namespace {

// The part of config.json that describes the language model.
const Value& language_part(const Value& config) {
  const Value* part = &config;
  for (const char* key : {"thinker_config", "text_config", "llm_config", "language_config", "language_model"}) {
    const auto found = part->find(key);
    if (found != part->end() && found->is_object() && !found->empty()) part = &*found;
  }
  return *part;
}

// KV heads, by every name that they have had.
int kv_heads_of(const ConfigReader& config, int heads) {
  if (const Value* attention = config.find({"attn_config", "attn_configs"}); attention != nullptr) {
    const int found = ConfigReader(*attention).number({"kv_n_heads"}, 0);
    if (found > 0) return found;
  }
  // Falcon: multi_query is true in the files of its new architecture too, which has num_kv_heads.
  if (!config.flag({"new_decoder_architecture"}, false) && config.flag({"multi_query"}, false)) return 1;
  return config.number(
      {"num_key_value_heads", "num_kv_heads", "n_head_kv", "multi_query_group_num", "num_query_groups"}, heads);
}

AttentionShape attention_of(const ConfigReader& config, int heads, int hidden) {
  AttentionShape out;
  out.heads = heads;
  out.kv_heads = kv_heads_of(config, heads);
  out.head_dim = config.number({"head_dim", "attention_head_dim", "kv_channels"}, heads > 0 ? hidden / heads : 0);
  out.v_head_dim = out.head_dim;
  const int latent = config.number({"kv_lora_rank"}, 0);
  if (latent > 0) {
    out.latent = latent;
    out.rope = config.number({"qk_rope_head_dim"}, 64);
    out.index_dim = config.number({"index_head_dim"}, 0);
    out.head_dim = config.number({"qk_nope_head_dim"}, 128) + out.rope;
    out.v_head_dim = config.number({"v_head_dim"}, 128);
    out.kv_heads = 1;
  } else if (config.has("v_head_dim")) {
    out.v_head_dim = config.number({"v_head_dim"}, out.head_dim);
  }
  return out;
}

// Gemma 4: the layers that see everything have a head size and a number of KV heads of their own.
AttentionShape global_attention(const ConfigReader& config, AttentionShape shape) {
  if (const int dim = config.number({"global_head_dim"}, 0); dim > 0) shape.head_dim = shape.v_head_dim = dim;
  shape.kv_heads = config.number({"num_global_key_value_heads"}, shape.kv_heads);
  return shape;
}

ExpertShape experts_of(const ConfigReader& config, int mlp_width) {
  ExpertShape out;
  out.count = config.number({"n_routed_experts", "num_experts", "num_local_experts", "moe_num_experts"}, 0);
  if (out.count <= 1) return {};
  out.per_token = config.number(
      {"num_experts_per_tok", "num_experts_per_token", "experts_per_token", "moe_top_k", "moe_topk", "top_k_experts"},
      2);
  out.width = config.number({"moe_intermediate_size", "expert_ffn_hidden_size", "intermediate_size_moe"}, mlp_width);
  out.shared_width = config.number(
      {"shared_expert_intermediate_size", "moe_shared_expert_intermediate_size", "shared_intermediate_size"}, 0);
  if (out.shared_width == 0)
    out.shared_width = config.number({"n_shared_experts", "num_shared_experts"}, 0) * out.width;
  return out;
}

// Which layers have experts rather than an MLP.
bool has_experts(const ConfigReader& config, const ExpertShape& experts, int layer) {
  if (experts.count == 0) return false;
  if (layer < config.number({"first_k_dense_replace", "moe_layer_start_index"}, 0)) return false;
  if (const Value* only = config.find({"mlp_only_layers"}); only != nullptr && only->is_array()) {
    if (std::find(only->begin(), only->end(), Value(layer)) != only->end()) return false;
  }
  const int step =
      config.number({"decoder_sparse_step", "moe_layer_freq", "interleave_moe_layer_step", "expert_layer_period"}, 1);
  if (step <= 1) return true;
  const int offset = config.number({"expert_layer_offset"}, step - 1);
  return layer % step == offset;
}

// Pattern letters say for Nemotron-H which of its MLP-like layers have experts.
bool letter_says_experts(const ConfigReader& config, std::size_t layer) {
  const std::string pattern = replace_all(config.text({"hybrid_override_pattern"}, ""), "|", "");
  return layer < pattern.size() && pattern[layer] == 'E';
}

int positions_of(const ConfigReader& config) {
  const int said = config.number({"max_position_embeddings", "max_seq_len", "n_positions", "seq_length",
                                  "max_sequence_length", "model_max_length"},
                                 0);
  const Value* scaling = config.find({"rope_scaling"});
  if (scaling == nullptr || !scaling->is_object()) return said;
  const ConfigReader rope(*scaling);
  const std::string type = rope.text({"rope_type", "type"}, "");
  // vLLM and SGLang multiply for these; llama3 and longrope have it in max_position_embeddings already.
  if (type == "yarn") {
    const int original = rope.number({"original_max_position_embeddings"}, said);
    return whole_of(original * std::max(1.0, rope.real("factor", 1.0)));
  }
  if (type == "linear" || type == "dynamic") return whole_of(said * std::max(1.0, rope.real("factor", 1.0)));
  return said;
}

// Layers whose keys and values are those of an earlier layer (Gemma 3n, Gemma 4) have no cache of their own.
int own_cache_layers(const ConfigReader& config, int layers) {
  return std::max(0, layers - config.number({"num_kv_shared_layers"}, 0));
}

void fill_layers(ModelShape& shape, const ConfigReader& config, int layers) {
  const AttentionShape attention = attention_of(config, shape.heads, shape.hidden);
  const AttentionShape global = global_attention(config, attention);
  int window = config.number({"sliding_window", "sliding_window_size"}, 0);
  if (starts_with(shape.model_type, "llama4")) window = config.number({"attention_chunk_size"}, 8192);
  const bool pattern_layers = config.has("hybrid_override_pattern");
  const auto words = layer_words(config, shape.model_type, layers);
  const int own = own_cache_layers(config, layers);
  for (int index = 0; index < layers; ++index) {
    const LayerWord word = words[static_cast<std::size_t>(index)];
    LayerShape layer;
    if (word == LayerWord::full || word == LayerWord::window || word == LayerWord::both) {
      if (index < own) layer.attention = word == LayerWord::window ? attention : global;
      if (layer.attention && word == LayerWord::window) layer.attention->window = window;
    }
    layer.recurrent = word == LayerWord::state || word == LayerWord::both;
    if (pattern_layers) {
      layer.experts = letter_says_experts(config, static_cast<std::size_t>(index));
      layer.mlp_width = word == LayerWord::mlp ? shape.mlp_width : 0;
    } else {
      layer.experts = has_experts(config, shape.experts, index);
      layer.mlp_width = shape.mlp_width;
    }
    shape.layers.push_back(std::move(layer));
  }
}

Failure missing(const std::string& name, const std::string& what) {
  return fail(make_error(ErrorKind::invalid, fmt::format("the config of {} does not say {}", name, what))
                  .with_hint("is it the config.json of a language model? A directory as downloaded has it"));
}

}  // namespace

Result<ModelShape> shape_of_config(const Value& config, const std::string& name) {
  if (!config.is_object()) return fail(ErrorKind::invalid, fmt::format("the config of {} is no JSON object", name));
  const ConfigReader outer(config);
  const ConfigReader text(language_part(config));
  ModelShape shape;
  shape.name = name;
  shape.model_type = text.text({"model_type"}, outer.text({"model_type"}, ""));
  if (const Value* names = outer.find({"architectures"}); names != nullptr && names->is_array() && !names->empty())
    shape.architecture = names->front().is_string() ? names->front().get<std::string>() : "";
  shape.hidden = text.number({"hidden_size", "n_embd", "d_model", "dim"}, 0);
  const int layers = text.number({"num_hidden_layers", "n_layer", "n_layers", "num_layers"}, 0);
  if (layers <= 0) return missing(name, "how many layers there are (num_hidden_layers)");
  if (layers > 4096) return missing(name, fmt::format("a possible number of layers ({})", layers));
  if (shape.hidden <= 0) return missing(name, "how wide it is (hidden_size)");
  shape.heads = text.number({"num_attention_heads", "n_head", "n_heads", "num_heads"}, 0);
  shape.vocab = text.number({"vocab_size", "padded_vocab_size"}, outer.number({"vocab_size"}, 0));
  shape.max_positions = positions_of(text);
  shape.positions = position_shape(text.all());
  // A Mamba block is the whole layer; everything else has an MLP, whose width some leave to the family's rule of 4.
  const bool bare = shape.model_type == "mamba" || shape.model_type == "mamba2" || shape.model_type == "falcon_mamba";
  shape.mlp_width =
      bare ? 0
           : text.number({"intermediate_size", "ffn_hidden_size", "n_inner", "ffn_dim", "inner_dim"}, 4 * shape.hidden);
  shape.tied_embeddings =
      text.flag({"tie_word_embeddings"}, outer.flag({"tie_word_embeddings"}, starts_with(shape.model_type, "gemma")));
  shape.dtype = text.text({"dtype", "torch_dtype"}, outer.text({"dtype", "torch_dtype"}, "bfloat16"));
  shape.state_dtype = text.text({"mamba_ssm_dtype", "mamba_ssm_cache_dtype"}, "");
  shape.gated_mlp = !starts_with(shape.model_type, "nemotron") && !starts_with(shape.model_type, "gpt2") &&
                    shape.model_type != "phi" && !starts_with(shape.model_type, "falcon") &&
                    shape.model_type != "starcoder2" && shape.model_type != "gpt_bigcode";
  if (starts_with(shape.model_type, "falcon_h1")) shape.gated_mlp = true;
  shape.experts = experts_of(text, shape.mlp_width);
  shape.state = state_shape(text, shape.model_type, shape.hidden);
  shape.vision =
      vision_shape(&language_part(config) == &config ? config : config.value("thinker_config", config), shape.hidden);
  shape.quant = quant_shape(config);
  if (shape.quant.method.empty()) shape.quant = quant_shape(text.all());
  shape.mtp_layers =
      text.number({"num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_layers", "nextn_predict_layers"}, 0);
  shape.q_lora = text.number({"q_lora_rank"}, 0);
  shape.mla_nope = text.number({"qk_nope_head_dim"}, 0);
  shape.mla_v = text.number({"v_head_dim"}, 0);
  shape.attention_gate = text.flag(
      {"attn_output_gate"}, starts_with(shape.model_type, "qwen3_next") || starts_with(shape.model_type, "qwen3_5"));
  fill_layers(shape, text, layers);
  if (shape.recurrent_layers() == 0) shape.state = {};
  if (shape.recurrent_layers() > 0 && shape.state.kind == StateKind::none)
    return missing(name, "how large the state of its recurrent layers is");
  const AttentionShape* first = shape.first_attention();
  if (first != nullptr && (first->heads <= 0 || first->kv_heads <= 0 || first->head_dim <= 0))
    return missing(name, "its attention heads (num_attention_heads, num_key_value_heads, head_dim)");
  return shape;
}

}  // namespace millwright::planner
