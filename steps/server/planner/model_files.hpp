// A model as it lies on disk: a directory with config.json and safetensors files, or a GGUF file.
//
// Only headers are read. Blocking reads on the caller's thread; the results may be used from any.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "orchestrator/base/knowledge.hpp"
#include "steps/server/planner/gguf.hpp"
#include "steps/server/planner/model_shape.hpp"
#include "steps/server/planner/weights.hpp"

namespace millwright::planner {

// Where the sizes of the weights come from, the surest first.
enum class WeightSource { tensors, total_size, published, config };
const char* to_string(WeightSource source);

struct Model {
  ModelShape shape;
  WeightParts weights;
  WeightSource weight_source = WeightSource::config;
  bool is_gguf = false;
  double mmproj_bytes = 0;         // GGUF: a projector beside the model
  std::string source;              // a name of the knowledge: where its figures were read
  std::string repository;          // a name of the knowledge: "org/name", when it is that checkpoint itself
  std::vector<std::string> notes;  // what a person should know about how it was read
};

// A directory, or a GGUF file. `prefer_gguf`: of a directory that has both.
// io: nothing there or unreadable; invalid: a file is broken or says too little.
Result<Model> read_model(const std::string& path, bool prefer_gguf);

// A name of knowledge file "model_shapes" (full, or the part after the slash; case is ignored), with its quantised
// variants ("-FP8" after the name takes the row's own checkpoint of that format). usage: no such model, with the
// nearest names.
Result<Model> known_model(const Knowledge& knowledge, const std::string& name);

}  // namespace millwright::planner
