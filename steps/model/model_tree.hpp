// A model that is a folder of files (config.json, *.safetensors, the tokenizer's), here on the controller.
//
// Names that begin with a dot (.git, .cache) are no part of a model. Links are followed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "orchestrator/base/error.hpp"

namespace millwright {

struct TreeFile {
  std::string path;  // below the folder, with slashes
  std::uint64_t bytes = 0;
  std::string sha256;  // empty until it was hashed
};

struct ModelTree {
  std::string folder;
  std::vector<TreeFile> files;  // sorted by the bytes of their paths

  std::uint64_t bytes() const;
  std::vector<std::string> folders() const;  // those below the top, parents first
  // A line "<sha256>  <path>" for each file. Its SHA-256 is that of the model.
  std::string manifest() const;
  std::string sha256() const;
};

// The names and sizes. invalid: a name that cannot travel in a manifest (a control character, a backslash), or folders
// deeper than a model has; io: what cannot be read.
Result<ModelTree> list_tree(const std::string& folder);
// Reads every file. io.
Result<void> hash_tree(ModelTree& tree);
// Whether it looks whole without reading it: there is a config.json, the safetensors index names only files that exist,
// and each safetensors file is as long as its header says. invalid, class file_missing or file_corrupt, naming the
// file.
Result<void> check_tree(const ModelTree& tree);

}  // namespace millwright
