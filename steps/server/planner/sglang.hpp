// Inside of SGLang's arithmetic, in pieces that tests can ask one by one. Pure.
#pragma once

#include "steps/server/planner/query.hpp"

namespace millwright::planner {

// What follows from flags and GPU before anything is measured.
// Source: server_args.py _handle_gpu_memory_settings (0.5.9 to 0.5.12), arg_groups/memory_hook.py (0.5.23).
struct SglangSettings {
  int chunk = 0;
  int graph_max_bs = 0;
  double fraction = 0;
  bool fraction_is_automatic = true;
  int context = 0;
  bool speculative = false;
  std::string algorithm;
  int draft_tokens = 0;
  int draft_layers = 0;
  std::optional<int> requests;
  bool radix = true;
  bool extra_buffer = false;
  bool overlap = true;
  int page_size = 1;
};
SglangSettings sglang_settings(const Query& query, const Layout& layout);

// State slots and what is left for keys and values, of `rest` bytes. Source: handle_max_mamba_cache.
struct SglangStates {
  double slots = 0;
  double intermediate_bytes = 0;
  double kv_bytes = 0;  // left for keys and values; below zero: does not start
  int ratio = 1;        // slots a running request
};
SglangStates sglang_states(const Query& query, const SglangSettings& settings, double rest_bytes, double slot_bytes);

// Bytes of a token on one rank of a stage. Source: get_cell_size_per_token, _compute_cell_size.
struct SglangCell {
  double full = 0;    // of all layers that keep every token
  double window = 0;  // of those in the pool of windows; 0: one pool
  double sizing = 0;  // what the budget is divided by
};
SglangCell sglang_cell(const Query& query, const Layout& layout, const SglangSettings& settings, int stage);

// Bytes of state of one request slot on one rank, all recurrent layers.
double sglang_slot_bytes(const Query& query, const Layout& layout);

}  // namespace millwright::planner
