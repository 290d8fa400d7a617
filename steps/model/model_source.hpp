// Where a model comes from and where it goes. Pure.
#pragma once

#include <string>

#include "orchestrator/base/error.hpp"
#include "steps/contract/inputs.hpp"
#include "steps/model/model_tree.hpp"

namespace millwright {

enum class ModelOrigin { here, on_node, url, pypi };

struct ModelSource {
  ModelOrigin origin = ModelOrigin::here;
  std::string text;       // as given
  std::string location;   // path, URL, or requirement ("name==1.0")
  std::string package;    // pypi: the name alone
  std::string file_name;  // of the model on the node; a folder's name for a folder
  std::string name;       // folder under models/
  std::string revision;   // folder under that
  std::string sha256;     // wanted; empty: not checked. Of a folder: that of its manifest (ModelTree::manifest)
  ModelTree tree;         // here: the files, when it is a folder; empty for a single file

  bool is_folder() const { return !tree.files.empty(); }
  std::string folder() const;   // /var/lib/millwright/models/<name>/<revision>
  std::string path() const;     // where the model is afterwards; for node:/path that path
  std::string sidecar() const;  // remembers hash, sizes and times, so that what is unchanged is not read again
};

// `sha256` is that of a file or folder here, computed by the caller; empty otherwise.
Result<ModelSource> model_source(const Inputs& inputs, const std::string& sha256_of_local);
ModelOrigin origin_of(const std::string& source);
// Lower-case hex SHA-256 of a file here, streamed; of a large one that is unchanged since it was hashed last, from
// memory (HashMemo). io when it cannot be read.
Result<std::string> hash_file(const std::string& path);

}  // namespace millwright
