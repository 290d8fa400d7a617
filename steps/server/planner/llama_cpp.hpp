// Inside of llama.cpp's arithmetic, in pieces that tests can hold against what it prints. Pure.
#pragma once

#include "steps/server/planner/query.hpp"

namespace millwright::planner {

struct LlamaSettings {
  int slots = 4;
  bool unified = true;  // one stream for all slots: when --parallel is not given, or with --kv-unified
  int context = 0;
  bool context_set = false;
  int ubatch = 512;
  double k_bytes = 2;
  double v_bytes = 2;
  bool mtp = false;
  int draft_tokens = 0;
};
LlamaSettings llama_settings(const Query& query);

struct LlamaCells {
  double full = 0;    // over all streams
  double window = 0;  // of the layers with a window
};
LlamaCells llama_cells(const Query& query, const LlamaSettings& settings);
// The "KV buffer size" (both lines of a model with windows) and the "RS buffer size" of layers [first, end).
double llama_kv_bytes(const Query& query, const LlamaSettings& settings, std::size_t first, std::size_t end);
double llama_state_bytes(const Query& query, const LlamaSettings& settings, std::size_t first, std::size_t end);

}  // namespace millwright::planner
