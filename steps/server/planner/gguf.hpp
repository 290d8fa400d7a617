// The header of a GGUF file: its key-value pairs and its tensors' names, shapes and types. The data is not read, so a
// sparse file with a real header is as good as the whole one.
//
// Format: ggml/docs/gguf.md. Little-endian only. Blocking reads on the caller's thread; values may be used from any.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "steps/server/planner/model_shape.hpp"
#include "steps/server/planner/weights.hpp"

namespace millwright::planner {

struct GgufFile {
  std::map<std::string, Value, std::less<>> values;  // arrays: of numbers as they are; of texts their length only
  std::vector<TensorInfo> tensors;
  double tensor_bytes = 0;

  // An integer value (also the largest entry of an array of numbers), or `otherwise`.
  int number(const std::string& key, int otherwise) const;
  std::string text(const std::string& key, const std::string& otherwise) const;
};

// io: cannot be read; invalid: no GGUF, cut short, or beyond what a header can be.
Result<GgufFile> read_gguf(const std::string& path);
// As llama.cpp understands it (llama.cpp src/llama-hparams.cpp, src/llama-model.cpp).
Result<ModelShape> shape_of_gguf(const GgufFile& file, const std::string& name);

}  // namespace millwright::planner
