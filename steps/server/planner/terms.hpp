// The terms that all engines share: bytes a token, bytes of state a request, peak of activations. Pure.
#pragma once

#include "steps/server/planner/query.hpp"

namespace millwright::planner {

// KV heads of one rank: a head cannot be cut, so with more ranks than heads each keeps a whole one.
int kv_heads_on_rank(const AttentionShape& attention, int tp);
// Bytes that one attention layer keeps for one token on one rank. MLA's latent is on every rank whole.
double layer_token_bytes(const AttentionShape& attention, int tp, double kv_bytes);

// Bytes of one recurrent layer's state of one request on one rank.
//   conv: rows of (heads*head_dim + 2*groups*state) values; groups are extended when they cannot be split
//   ssm:  heads*head_dim*state values
// Source: sglang/srt/configs/mamba_utils.py; vllm/model_executor/layers/mamba/mamba_utils.py.
struct StateBytes {
  double conv = 0;
  double recurrence = 0;
  double total() const { return conv + recurrence; }
};
StateBytes layer_state_bytes(const StateShape& state, int tp, int conv_rows, double conv_dtype, double state_dtype);

// Peak of the activations while `tokens` go through one stage, in GiB: the widest moment of a layer. Source: the
// allocations of a gated MLP and of fused_moe's workspaces (vllm/model_executor/layers/fused_moe/fused_moe.py).
double forward_peak_gib(const ModelShape& shape, int tokens, int tp);
// What fused_moe's workspaces keep afterwards.
double expert_workspace_gib(const ModelShape& shape, int tokens, int tp);

// The KV cache's dtype in bytes: the flag's, or that of the model when it is "auto".
double kv_dtype_bytes(const std::string& flag, const ModelShape& shape, const std::string& dtype_flag);

// The longest request that the engine lets a server be started for, and the one that it takes when none is asked for.
// Sources: vllm/config/model.py _get_and_verify_max_len; sglang/srt/utils/hf_transformers get_context_length and
// configs/model_config.py _derive_context_length. Flags that override the config count.
struct LongestContext {
  int most = 0;  // 0: no limit
  int usual = 0;
};
LongestContext longest_context(const Query& query);
// What was asked for with --context or the engine's own flag; 0: nothing, or as much as fits.
int asked_context(const Query& query);
// vLLM: max-model-len is "auto" or -1.
bool fits_context_itself(const Query& query);

// Layers [first, end) of a pipeline stage.
struct StageLayers {
  std::size_t first = 0;
  std::size_t end = 0;
};
StageLayers stage_range(const ModelShape& shape, const Layout& layout, int stage);

// SGLang's attention data parallelism: the groups of ranks that each have the whole attention; else 1.
int attention_groups(const Query& query);

double weight_doubt(WeightSource source);
// Weights on the ranks of a stage, uncertain as their source is.
double weights_gib(const Query& query, const Layout& layout, int stage, bool with_mtp, Scenario scenario);

// The GPU that rank r of the first replica uses.
const Gpu& gpu_of_rank(const Query& query, int rank);

}  // namespace millwright::planner
