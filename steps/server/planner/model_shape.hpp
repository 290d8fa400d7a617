// What a model looks like to a memory planner: its layers, what each keeps per token and per request, and how large its
// weights are. Read from the model's own files (model_files.hpp) or worked out from its config.json alone.
//
// Value types and pure functions; safe from any thread. Bytes are bytes, GiB is 2^30.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "orchestrator/base/error.hpp"
#include "orchestrator/base/value.hpp"

namespace millwright::planner {

inline constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;

// What one attention layer keeps per token.
struct AttentionShape {
  int heads = 0;
  int kv_heads = 0;
  int head_dim = 0;
  int v_head_dim = 0;
  int latent = 0;     // MLA: kv_lora_rank; 0 for everything else
  int rope = 0;       // MLA: qk_rope_head_dim
  int index_dim = 0;  // DSA: index_head_dim of the indexer; 0 without one
  int window = 0;     // tokens of a sliding (or chunked) window; 0: the whole context

  bool mla() const { return latent > 0; }
  friend bool operator==(const AttentionShape&, const AttentionShape&) = default;
};

enum class StateKind { none, gdn, mamba1, mamba2, kda, short_conv };

// The state that a recurrent layer keeps per request, in one notation for all of them:
//   conv rows of heads*head_dim + 2*groups*state values (short convolutions: heads*head_dim only), and
//   heads*head_dim*state values of the recurrence.
// GDN: heads = linear_num_value_heads, head_dim = linear_value_head_dim, groups = linear_num_key_heads,
// state = linear_key_head_dim. Mamba: d_inner = heads*head_dim, n_groups, d_state.
struct StateShape {
  StateKind kind = StateKind::none;
  int heads = 0;
  int head_dim = 0;
  int groups = 0;
  int state = 0;
  int conv_kernel = 0;
};

struct LayerShape {
  std::optional<AttentionShape> attention;
  bool recurrent = false;  // Falcon-H1 has both in every layer; Nemotron-H's MLP layers have neither
  bool experts = false;
  int mlp_width = 0;  // 0: no MLP of its own (Nemotron-H)
};

struct ExpertShape {
  int count = 0;
  int per_token = 0;
  int width = 0;         // of one routed expert
  int shared_width = 0;  // all shared experts together
};

struct VisionShape {
  int depth = 0;
  int hidden = 0;
  int mlp_width = 0;
  int merger_out = 0;          // width it is projected to
  bool has_depth_key = false;  // Qwen spells it `depth`; some engines look for num_hidden_layers only
};

// What the config says about the longest request, before an engine makes something of it (longest_context).
struct PositionShape {
  int smallest = 0;     // of all keys that name a length, or model_max_length where there is one; 0: none says it
  int first = 0;        // in the order in which SGLang looks for them
  std::string scaling;  // rope_type; empty: not scaled
  double factor = 1;
  int original = 0;      // original_max_position_embeddings: of the scaling
  int own_original = 0;  // of the config beside it
};
// Of the part of the config that describes the language model; a key that is not there leaves `before` as it is.
PositionShape position_shape(const Value& config, PositionShape before = {});

// How the checkpoint's matrices are stored.
struct QuantShape {
  std::string method;         // "", fp8, compressed-tensors, awq, gptq, mxfp4, nvfp4, ...
  double linear_bits = 0;     // bits per weight with scales; 0: not quantised
  bool experts_only = false;  // gpt-oss: attention stays as it was
  int block = 0;              // rows of a block that shares a scale; 0: none
};

struct ModelShape {
  std::string name;
  std::string architecture;  // as the file says it: Qwen3_5ForConditionalGeneration, or gemma3 of a GGUF
  std::string model_type;
  int hidden = 0;
  int heads = 0;
  int vocab = 0;
  int max_positions = 0;
  PositionShape positions;
  int mlp_width = 0;
  bool gated_mlp = true;
  bool tied_embeddings = false;
  std::string dtype = "bfloat16";
  std::string state_dtype;  // config's own mamba_ssm_dtype (or mamba_ssm_cache_dtype); empty: it says nothing
  std::vector<LayerShape> layers;
  StateShape state;
  ExpertShape experts;
  std::optional<VisionShape> vision;
  QuantShape quant;
  int mtp_layers = 0;
  int q_lora = 0;               // MLA
  int mla_nope = 0;             // qk_nope_head_dim
  int mla_v = 0;                // v_head_dim
  bool attention_gate = false;  // Qwen3-Next and 3.5: the query projection is twice as wide
  bool attention_bias = false;

  bool hybrid() const { return state.kind != StateKind::none; }
  int attention_layers() const;
  int full_attention_layers() const;  // without a window
  int window_layers() const;
  int recurrent_layers() const;
  int largest_window() const;  // 0: none
  bool mla() const;
  const AttentionShape* first_attention() const;
};

// Bytes of a dtype by any of its names ("bfloat16", "bf16", "fp8_e4m3", "int8", "float32", "auto" is no dtype): nothing
// for an unknown one.
std::optional<double> dtype_bytes(const std::string& name);

// config.json of a Hugging Face model. A nested text_config (llm_config, language_config, thinker_config) is followed.
// `name` is for messages. Missing figures without which nothing can be said are `invalid`, with what is missing.
Result<ModelShape> shape_of_config(const Value& config, const std::string& name);

}  // namespace millwright::planner
