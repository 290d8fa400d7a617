// How large the weights are, and how a tensor-parallel or pipeline-parallel engine spreads them over its ranks.
//
// Two sources: the checkpoint's own tensors (safetensors headers, a GGUF header), by their names; or, where there is
// only a config, the products of its widths. Pure; safe from any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "steps/server/planner/model_shape.hpp"

namespace millwright::planner {

// One matrix or vector of the checkpoint.
struct TensorInfo {
  std::string name;
  double bytes = 0;
  std::string dtype;
};

// Bytes by what happens to them when they are spread. `layer_*` have one entry a layer.
struct WeightParts {
  double embedding = 0;                  // first pipeline stage; split over TP
  double head = 0;                       // last pipeline stage; split over TP; 0 when it is the embedding
  bool tied = false;                     // the last stage then needs a copy of the embedding
  std::vector<double> layer_split;       // split over TP
  std::vector<double> layer_attention;   // of layer_split: attention and recurrence
  std::vector<double> layer_replicated;  // on every rank: norms, routers, MLA's down projections
  std::vector<double> layer_kv;          // key and value projections: split over min(TP, KV heads)
  std::vector<double> layer_experts;     // split over TP (or EP)
  double vision = 0;
  double mtp = 0;    // loaded only when it drafts
  double other = 0;  // replicated
  double embedded_dtype_bytes = 2;

  double total() const;  // all of the checkpoint but `mtp`
};

// From the config: `matrix` bits per weight as its quantisation says, all else in its dtype.
// Sources: the models' own modules in transformers (configuration_*.py and modeling_*.py of their families).
WeightParts weights_of_config(const ModelShape& shape);
// From the tensors of the checkpoint.
WeightParts weights_of_tensors(const ModelShape& shape, const std::vector<TensorInfo>& tensors);

// What the engine does to a checkpoint while it loads it.
struct LoadOptions {
  int tp = 1;
  int pp = 1;
  int ep = 1;            // ranks of other replicas that share the experts
  int attention_tp = 0;  // ranks that attention is split over; 0: all
  bool embedding_split = true;
  bool with_mtp = false;
  bool with_vision = true;
  bool vision_split = true;       // false: every rank has the whole tower
  double dtype_factor = 1;        // dtype=float32 of a bf16 checkpoint: 2
  double linear_factor = 1;       // online quantisation of the matrices: 0.5 for fp8 of bf16
  std::vector<int> stage_layers;  // layers of each pipeline stage; empty: as even as the engines make it
};

// Layers of each stage: the remainder goes to the last stages but the very last (vLLM's get_pp_indices, which SGLang
// shares; vllm/distributed/utils.py).
std::vector<int> stage_layers(int layers, int pp);
// Bytes on one rank of pipeline stage `stage`.
double weights_on_stage(const WeightParts& parts, const ModelShape& shape, const LoadOptions& options, int stage);

}  // namespace millwright::planner
