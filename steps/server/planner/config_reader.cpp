#include "steps/server/planner/config_reader.hpp"

#include <algorithm>

#include "orchestrator/base/text.hpp"
#include "steps/server/planner/quantity.hpp"

namespace millwright::planner {

const Value* ConfigReader::find(std::initializer_list<const char*> keys) const {
  if (!config_.is_object()) return nullptr;
  for (const char* key : keys) {
    const auto found = config_.find(key);
    if (found != config_.end() && !found->is_null()) return &*found;
  }
  return nullptr;
}

int ConfigReader::number(std::initializer_list<const char*> keys, int otherwise) const {
  for (const char* key : keys) {
    const Value* value = find({key});
    if (value != nullptr && value->is_number()) return whole_of(value->get<double>());
  }
  return otherwise;
}

double ConfigReader::real(const char* key, double otherwise) const {
  const Value* value = find({key});
  return value != nullptr && value->is_number() ? value->get<double>() : otherwise;
}

std::string ConfigReader::text(std::initializer_list<const char*> keys, const std::string& otherwise) const {
  const Value* value = find(keys);
  return value != nullptr && value->is_string() ? value->get<std::string>() : otherwise;
}

bool ConfigReader::flag(std::initializer_list<const char*> keys, bool otherwise) const {
  const Value* value = find(keys);
  return value != nullptr && value->is_boolean() ? value->get<bool>() : otherwise;
}

namespace {

LayerWord word_of(const std::string& type) {
  if (type == "sliding_attention" || type == "chunked_attention" || type == "local_attention" || type == "local")
    return LayerWord::window;
  if (type == "linear_attention" || type == "mamba" || type == "mamba2" || type == "conv" || type == "recurrent" ||
      type == "kda")
    return LayerWord::state;
  if (type == "hybrid") return LayerWord::both;  // Zamba2: a mamba layer that also calls the shared attention
  if (type == "mlp" || type == "moe" || type == "ffn") return LayerWord::mlp;
  return LayerWord::full;
}

// One word a layer, in layer_types (transformers since 4.53), layers_block_type (Jamba, Bamba, Zamba) or block_types.
std::optional<std::vector<LayerWord>> listed(const ConfigReader& config) {
  const Value* types = config.find({"layer_types", "layers_block_type", "block_types"});
  if (types == nullptr || !types->is_array() || types->empty()) return {};
  std::vector<LayerWord> out;
  for (const Value& type : *types) out.push_back(type.is_string() ? word_of(type) : LayerWord::full);
  return out;
}

// Nemotron-H: a letter a layer; M mamba, * attention, - MLP, E experts.
std::optional<std::vector<LayerWord>> spelled(const ConfigReader& config) {
  const std::string pattern = config.text({"hybrid_override_pattern"}, "");
  if (pattern.empty()) return {};
  std::vector<LayerWord> out;
  for (const char letter : pattern) {
    if (letter == '|') continue;
    out.push_back(letter == 'M' ? LayerWord::state : letter == '*' ? LayerWord::full : LayerWord::mlp);
  }
  return out;
}

// Kimi-Linear counts its layers from 1, in two lists.
std::optional<std::vector<LayerWord>> kimi_linear(const ConfigReader& config, int layers) {
  const Value* linear = config.find({"linear_attn_config"});
  if (linear == nullptr || !linear->contains("full_attn_layers")) return {};
  std::vector<LayerWord> out(static_cast<std::size_t>(layers), LayerWord::state);
  for (const Value& number : linear->at("full_attn_layers")) {
    if (!number.is_number_integer()) continue;
    const int index = whole_of(number.get<double>()) - 1;
    if (index >= 0 && index < layers) out[static_cast<std::size_t>(index)] = LayerWord::full;
  }
  return out;
}

// Every n-th layer (counted from 1) is one kind, the others another.
std::vector<LayerWord> every(int layers, int n, LayerWord nth, LayerWord others) {
  std::vector<LayerWord> out;
  for (int layer = 1; layer <= layers; ++layer) out.push_back(layer % n == 0 ? nth : others);
  return out;
}

std::vector<LayerWord> jamba(const ConfigReader& config, int layers) {
  const int period = std::max(1, config.number({"attn_layer_period"}, 8));
  const int offset = config.number({"attn_layer_offset"}, 4);
  std::vector<LayerWord> out;
  for (int layer = 0; layer < layers; ++layer)
    out.push_back(layer % period == offset ? LayerWord::full : LayerWord::state);
  return out;
}

bool starts_with_any(const std::string& text, std::initializer_list<const char*> prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(), [&](const char* prefix) { return starts_with(text, prefix); });
}

// The period of a full layer among windows, where the family's code has it rather than the file.
// Source: transformers, configuration_gemma2.py, configuration_gemma3.py, configuration_cohere2.py,
// configuration_gpt_oss.py.
int window_period(const ConfigReader& config, const std::string& type) {
  if (const int said = config.number({"sliding_window_pattern", "_sliding_window_pattern"}, 0); said > 0) return said;
  if (starts_with_any(type, {"gemma3", "gemma4"})) return 6;
  if (starts_with_any(type, {"cohere2"})) return 4;
  if (starts_with_any(type, {"gemma2", "gpt_oss"})) return 2;
  return 0;
}

std::vector<LayerWord> windows(const ConfigReader& config, const std::string& type, int layers) {
  const std::vector<LayerWord> full(static_cast<std::size_t>(layers), LayerWord::full);
  if (starts_with(type, "llama4")) {
    // no_rope_layers: 0 marks a layer with the whole context.
    const Value* rope = config.find({"no_rope_layers"});
    if (rope == nullptr || !rope->is_array() || rope->empty())
      return every(layers, 4, LayerWord::full, LayerWord::window);
    std::vector<LayerWord> out;
    for (const Value& one : *rope) out.push_back(one == 0 ? LayerWord::full : LayerWord::window);
    return out;
  }
  if (config.number({"sliding_window"}, 0) <= 0) return full;
  if (const int period = window_period(config, type); period > 0)
    return every(layers, period, LayerWord::full, LayerWord::window);
  if (starts_with_any(type, {"qwen2", "qwen3"})) {
    // The window is there in the file of models that never use it; layers below max_window_layers have none.
    if (!config.flag({"use_sliding_window"}, false)) return full;
    const int first = config.number({"max_window_layers"}, layers);
    std::vector<LayerWord> out = full;
    for (int layer = first; layer < layers; ++layer) out[static_cast<std::size_t>(layer)] = LayerWord::window;
    return out;
  }
  return std::vector<LayerWord>(static_cast<std::size_t>(layers), LayerWord::window);
}

}  // namespace

std::vector<LayerWord> layer_words(const ConfigReader& config, const std::string& model_type, int layers) {
  const auto all = [&](LayerWord word) { return std::vector<LayerWord>(static_cast<std::size_t>(layers), word); };
  if (starts_with(model_type, "falcon_h1")) return all(LayerWord::both);
  if (model_type == "mamba" || model_type == "mamba2" || model_type == "falcon_mamba") return all(LayerWord::state);
  for (auto words : {listed(config), spelled(config), kimi_linear(config, layers)}) {
    if (!words) continue;
    words->resize(static_cast<std::size_t>(layers), LayerWord::full);
    return *words;
  }
  if (const int interval = config.number({"full_attention_interval"}, 0); interval > 0)
    return every(layers, interval, LayerWord::full, LayerWord::state);
  if (starts_with_any(model_type, {"qwen3_next", "qwen3_5"}))
    return every(layers, 4, LayerWord::full, LayerWord::state);
  if (starts_with(model_type, "jamba")) return jamba(config, layers);
  return windows(config, model_type, layers);
}

StateShape state_shape(const ConfigReader& config, const std::string& model_type, int hidden) {
  StateShape out;
  if (config.has("linear_num_value_heads")) {
    out.kind = StateKind::gdn;
    out.heads = config.number({"linear_num_value_heads"}, 0);
    out.head_dim = config.number({"linear_value_head_dim"}, 128);
    out.groups = config.number({"linear_num_key_heads"}, 0);
    out.state = config.number({"linear_key_head_dim"}, 128);
    out.conv_kernel = config.number({"linear_conv_kernel_dim"}, 4);
    return out;
  }
  if (const Value* linear = config.find({"linear_attn_config"}); linear != nullptr) {
    const ConfigReader inner(*linear);
    out.kind = StateKind::kda;
    out.heads = out.groups = inner.number({"num_heads"}, 0);
    out.head_dim = out.state = inner.number({"head_dim"}, 128);
    out.conv_kernel = inner.number({"short_conv_kernel_size"}, 4);
    return out;
  }
  if (starts_with(model_type, "lfm2")) {
    out.kind = StateKind::short_conv;
    out.heads = 1;
    out.head_dim = hidden;
    out.conv_kernel = config.number({"conv_L_cache"}, 3);
    return out;
  }
  const int state = config.number({"mamba_d_state", "ssm_state_size", "state_size"}, 0);
  if (state == 0) return out;
  out.state = state;
  out.conv_kernel = config.number({"mamba_d_conv", "conv_kernel"}, 4);
  const int expand = config.number({"mamba_expand", "expand"}, 2);
  const int heads = config.number({"mamba_n_heads", "mamba_num_heads", "n_mamba_heads"}, 0);
  const bool second = heads > 0 || model_type == "mamba2";
  int inner = config.number({"mamba_d_ssm", "intermediate_size_mamba"}, 0);
  if (second) {
    out.kind = StateKind::mamba2;
    out.heads = heads > 0 ? heads : config.number({"num_heads"}, 128);
    out.head_dim = config.number({"mamba_d_head", "mamba_head_dim", "mamba_headdim", "head_dim"}, 0);
    if (inner == 0) inner = out.head_dim > 0 ? out.heads * out.head_dim : expand * hidden;
    if (out.head_dim == 0 || out.heads * out.head_dim != inner) out.head_dim = inner / std::max(1, out.heads);
    out.groups = config.number({"mamba_n_groups", "mamba_ngroups", "n_groups"}, 1);
    return out;
  }
  out.kind = StateKind::mamba1;
  out.heads = inner > 0 ? inner : expand * hidden;
  out.head_dim = 1;
  return out;
}

namespace {

// Bits of a weight with its scales. Sources: the formats' own papers and packers: OCP MX (4 bits and 8 a block of 32),
// NVFP4 (4 and 8 a block of 16), GPTQ/AWQ/W4A16 (4, a 16-bit scale and a 4-bit zero a group), FP8 (8 and a float a
// block of 128x128 or a channel).
double packed_bits(double bits, int group, double per_group) { return bits + per_group / group; }

double bits_of_compressed(const Value& quant) {
  const auto groups = quant.find("config_groups");
  if (groups == quant.end() || !groups->is_object() || groups->empty()) return 8.02;
  const Value& first = *groups->begin();
  const auto weights = first.find("weights");
  if (weights == first.end() || !weights->is_object()) return 8.02;
  const ConfigReader reader(*weights);
  const int bits = reader.number({"num_bits"}, 8);
  const int group = reader.number({"group_size"}, 0);
  if (bits == 4 && reader.text({"type"}, "int") == "float") return packed_bits(4, 16, 8);
  return group > 0 ? packed_bits(bits, group, 16) : bits + 0.02;
}

}  // namespace

QuantShape quant_shape(const Value& config) {
  QuantShape out;
  const auto found = config.find("quantization_config");
  if (found == config.end() || !found->is_object()) return out;
  const ConfigReader quant(*found);
  out.method = quant.text({"quant_method", "quant_algo"}, "unknown");
  const std::string algorithm = quant.text({"quant_algo"}, "");
  const Value* block = quant.find({"weight_block_size"});
  if (block != nullptr && block->is_array() && !block->empty() && block->front().is_number())
    out.block = whole_of(block->front().get<double>());
  const int bits = quant.number({"bits", "w_bit"}, 4);
  const int group = std::max(1, quant.number({"group_size", "q_group_size"}, 128));
  if (algorithm == "NVFP4" || out.method == "nvfp4" || algorithm == "FP4") {
    out.linear_bits = packed_bits(4, 16, 8);
  } else if (out.method == "mxfp4") {
    out.linear_bits = packed_bits(4, 32, 8);
    out.experts_only = true;
  } else if (out.method == "fp8" || out.method == "fbgemm_fp8" || algorithm == "FP8" || out.method == "modelopt") {
    out.linear_bits = 8.01;
  } else if (out.method == "compressed-tensors") {
    out.linear_bits = bits_of_compressed(*found);
  } else if (out.method == "bitsandbytes") {
    out.linear_bits = quant.flag({"load_in_8bit", "_load_in_8bit"}, false) ? 8.02 : 4.5;
  } else {
    out.linear_bits = packed_bits(bits, group, 20);  // awq, gptq, auto-round and their like
  }
  return out;
}

std::optional<VisionShape> vision_shape(const Value& config, int text_hidden) {
  const auto found = config.find("vision_config");
  if (found == config.end() || !found->is_object() || found->empty()) return {};
  const ConfigReader vision(*found);
  VisionShape out;
  out.has_depth_key = vision.has("depth");
  out.depth = vision.number({"depth", "num_hidden_layers", "num_layers", "layers"}, 24);
  out.hidden = vision.number({"hidden_size", "embed_dim", "width"}, 1024);
  out.mlp_width = vision.number({"intermediate_size", "mlp_dim"}, 0);
  if (out.mlp_width == 0) out.mlp_width = static_cast<int>(out.hidden * 4);
  out.merger_out = vision.number({"out_hidden_size"}, text_hidden);
  return out;
}

}  // namespace millwright::planner
