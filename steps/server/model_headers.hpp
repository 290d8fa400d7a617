// What the planner reads of a model, of one that lies on a node: config.json, the index of its shards and their
// headers.
#pragma once

#include <string>

#include "steps/contract/step.hpp"
#include "steps/server/planner/model_files.hpp"

namespace millwright {

// Prints the files that the planner reads, each "file NAME SIZE" and its bytes as base64 in one line: of safetensors
// only the header, and of these only as much as one answer carries (the index then says the rest).
std::string model_headers_script(const std::string& path);

// Lays such an answer out in a temporary folder, weights as holes, and reads it as the model that it stands for.
Result<planner::Model> read_model_headers(const std::string& answer);

// One round trip. `invalid` when the model says too little, `refused` for a file (GGUF: the engine fits itself).
Result<planner::Model> model_on_node(StepContext& context, const std::string& path);

}  // namespace millwright
