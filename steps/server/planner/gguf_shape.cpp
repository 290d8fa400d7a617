#include <fmt/format.h>

#include <algorithm>

#include "orchestrator/base/text.hpp"
#include "steps/server/planner/gguf.hpp"
#include "steps/server/planner/quantity.hpp"

namespace millwright::planner {
namespace {

// Every n-th layer sees everything, the others a window. Architectures whose pattern is in the code, not in the file.
// Source: llama.cpp src/llama-model.cpp, calls of set_swa_pattern (0.7.0, build 11669).
int window_period(const std::string& architecture) {
  static const std::map<std::string, int> known = {{"gemma2", 2},  {"gemma3", 6},  {"gemma3n", 5},
                                                   {"gpt-oss", 2}, {"cohere2", 4}, {"exaone4", 4},
                                                   {"llama4", 4},  {"olmo2", 4},   {"smallthinker", 4}};
  const auto found = known.find(architecture);
  return found == known.end() ? 0 : found->second;
}

class GgufShape {
 public:
  GgufShape(const GgufFile& file, const std::string& name) : file_(file) {
    shape_.name = name;
    shape_.architecture = shape_.model_type = file.text("general.architecture", "");
  }

  Result<ModelShape> read() {
    const int layers = key("block_count", 0) - key("nextn_predict_layers", 0);
    shape_.hidden = key("embedding_length", 0);
    if (layers <= 0 || layers > 4096 || shape_.hidden <= 0)
      return fail(
          make_error(ErrorKind::invalid,
                     shape_.name + ": its header does not say how many layers there are, or how wide")
              .with_hint("is it a language model? A projector (mmproj) or an adapter is planned with its model"));
    shape_.heads = key("attention.head_count", 0);
    shape_.max_positions = key("context_length", 0);
    shape_.mlp_width = key("feed_forward_length", 0);
    shape_.mtp_layers = key("nextn_predict_layers", 0);
    shape_.vocab = file_.number("tokenizer.ggml.tokens", key("vocab_size", 0));
    shape_.dtype = "float16";
    experts();
    state();
    for (int layer = 0; layer < layers; ++layer) shape_.layers.push_back(one(layer));
    if (shape_.recurrent_layers() == 0) shape_.state = {};
    return shape_;
  }

 private:
  int key(const std::string& name, int otherwise) const {
    return file_.number(shape_.architecture + "." + name, otherwise);
  }
  // Per layer where the file has a list, else the same for all.
  int per_layer(const std::string& name, int layer, int otherwise) const {
    const auto found = file_.values.find(shape_.architecture + "." + name);
    if (found == file_.values.end()) return otherwise;
    if (!found->second.is_array()) return key(name, otherwise);
    const auto index = static_cast<std::size_t>(layer);
    if (index >= found->second.size() || !found->second[index].is_number()) {
      // Booleans are lists of windows.
      return index < found->second.size() && found->second[index] == true ? 1 : 0;
    }
    return whole_of(found->second[index].get<double>());
  }

  void experts() {
    shape_.experts.count = key("expert_count", 0);
    if (shape_.experts.count == 0) return;
    shape_.experts.per_token = key("expert_used_count", 1);
    shape_.experts.width = key("expert_feed_forward_length", shape_.mlp_width);
    shape_.experts.shared_width = key("expert_shared_feed_forward_length", 0);
  }

  // llama_hparams::n_embd_r and n_embd_s.
  void state() {
    StateShape& out = shape_.state;
    if (const int inner = key("ssm.inner_size", 0); inner > 0) {
      out.kind = key("ssm.group_count", 0) > 0 ? StateKind::mamba2 : StateKind::mamba1;
      out.heads = inner;
      out.head_dim = 1;
      out.groups = key("ssm.group_count", 0);
      out.state = key("ssm.state_size", 0);
      out.conv_kernel = key("ssm.conv_kernel", 4);
    } else if (const int kda = key("kda.head_dim", 0); kda > 0) {
      out.kind = StateKind::kda;
      out.heads = out.groups = shape_.heads;
      out.head_dim = out.state = kda;
      out.conv_kernel = key("ssm.conv_kernel", 4);
    } else if (const int cache = key("shortconv.l_cache", 0); cache > 0) {
      out.kind = StateKind::short_conv;
      out.heads = 1;
      out.head_dim = shape_.hidden;
      out.conv_kernel = cache;
    }
  }

  bool is_recurrent(int layer) const {
    if (shape_.state.kind == StateKind::none) return false;
    if (shape_.architecture == "falcon-h1") return true;
    if (starts_with(shape_.architecture, "qwen3next") || starts_with(shape_.architecture, "qwen35"))
      return (layer + 1) % std::max(1, key("full_attention_interval", 4)) != 0;
    if (shape_.architecture == "mamba" || shape_.architecture == "mamba2") return true;
    // Nemotron-H has layers with neither: an MLP has a width of its own there.
    const bool no_attention = per_layer("attention.head_count_kv", layer, 0) == 0;
    if (shape_.architecture == "nemotron_h" || shape_.architecture == "nemotron_h_moe")
      return no_attention && per_layer("feed_forward_length", layer, 0) == 0;
    return no_attention;
  }

  int window_of(int layer) const {
    const int window = key("attention.sliding_window", 0);
    if (window <= 0) return 0;
    const auto pattern = file_.values.find(shape_.architecture + ".attention.sliding_window_pattern");
    if (pattern != file_.values.end() && pattern->second.is_array())
      return per_layer("attention.sliding_window_pattern", layer, 0) != 0 ? window : 0;
    const int period = key("attention.sliding_window_pattern", window_period(shape_.architecture));
    return period > 1 && layer % period < period - 1 ? window : 0;
  }

  LayerShape one(int layer) const {
    LayerShape out;
    out.recurrent = is_recurrent(layer);
    out.experts = shape_.experts.count > 0 && layer >= key("leading_dense_block_count", 0);
    out.mlp_width = per_layer("feed_forward_length", layer, shape_.mlp_width);
    const int heads = per_layer("attention.head_count", layer, shape_.heads);
    const int kv_heads = per_layer("attention.head_count_kv", layer, heads);
    const bool attends = kv_heads > 0 && heads > 0 && (!out.recurrent || shape_.architecture == "falcon-h1");
    if (!attends) return out;
    AttentionShape attention;
    attention.heads = heads;
    attention.kv_heads = kv_heads;
    attention.head_dim = key("attention.key_length", heads > 0 ? shape_.hidden / heads : 0);
    attention.v_head_dim = key("attention.value_length", attention.head_dim);
    attention.window = window_of(layer);
    if (attention.window > 0) {
      attention.head_dim = key("attention.key_length_swa", attention.head_dim);
      attention.v_head_dim = key("attention.value_length_swa", attention.v_head_dim);
    }
    // Only a file that was converted for it keeps the latent: key_length_mla, with one KV head.
    if (key("attention.key_length_mla", 0) > 0 && key("attention.kv_lora_rank", 0) > 0) {
      attention.latent = key("attention.kv_lora_rank", 0);
      attention.rope = key("rope.dimension_count", 64);
      attention.kv_heads = 1;
    }
    out.attention = attention;
    return out;
  }

  const GgufFile& file_;
  ModelShape shape_;
};

}  // namespace

Result<ModelShape> shape_of_gguf(const GgufFile& file, const std::string& name) {
  if (file.text("general.architecture", "").empty())
    return fail(ErrorKind::invalid, name + ": its header does not name an architecture (general.architecture)");
  return GgufShape(file, name).read();
}

}  // namespace millwright::planner
