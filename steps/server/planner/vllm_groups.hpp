// vLLM's KV cache blocks: layers become groups with one page size, and all groups draw from one pool of blocks.
//
// Source: vllm/v1/core/kv_cache_utils.py (get_kv_cache_groups, get_kv_cache_capacity), v1/kv_cache_interface.py (the
// specs), model_executor/models/config.py and platforms/interface.py (block size of hybrids); versions 0.8.5 to 0.32.0.
// Pure.
#pragma once

#include <vector>

#include "steps/server/planner/query.hpp"

namespace millwright::planner {

enum class PageKind { full, window, state };

struct BlockGroup {
  PageKind kind = PageKind::full;
  int layers = 0;
  double block_tokens = 0;
  int window = 0;
};

struct BlockLayout {
  std::vector<BlockGroup> groups;
  double block_bytes = 0;  // of one block of the pool, over all layers of the widest group
  double page_bytes = 0;   // of one layer
  double least_block_tokens = 0;
  double state_blocks = 0;  // a request takes in each group of states
  double in_flight_tokens = 0;
};

struct VllmSettings {
  int max_model_len = 0;
  int max_seqs = 0;
  int batched = 0;
  double utilization = 0;
  int draft_tokens = 0;
  int draft_layers = 0;
  bool prefix_caching = true;
};
VllmSettings vllm_settings(const Query& query, const Layout& layout);

// For pipeline stages, the groups of the whole model with the layers of the stage: `stage` < 0 is the whole model.
BlockLayout vllm_blocks(const Query& query, const Layout& layout, const VllmSettings& settings, int stage);
// Blocks that one request of `length` tokens takes, over all groups.
double blocks_of_request(const BlockLayout& blocks, double length);

}  // namespace millwright::planner
