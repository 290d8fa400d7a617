// Where a model comes from and where it goes. Pure.
#pragma once

#include <string>

#include "orchestrator/base/error.hpp"
#include "steps/contract/inputs.hpp"

namespace millwright {

enum class ModelOrigin { here, on_node, url, pypi };

struct ModelSource {
  ModelOrigin origin = ModelOrigin::here;
  std::string text;       // as given
  std::string location;   // path, URL, or requirement ("name==1.0")
  std::string package;    // pypi: the name alone
  std::string file_name;  // of the model on the node
  std::string name;       // folder under models/
  std::string revision;   // folder under that
  std::string sha256;     // wanted; empty: not checked

  std::string folder() const;   // /var/lib/millwright/models/<name>/<revision>
  std::string path() const;     // where the model is afterwards; for node:/path that path
  std::string sidecar() const;  // remembers hash, size and time, so that unchanged files are not read again
};

// `sha256` is that of a file here, computed by the caller; empty otherwise.
Result<ModelSource> model_source(const Inputs& inputs, const std::string& sha256_of_local);
ModelOrigin origin_of(const std::string& source);
// Lower-case hex SHA-256 of a file here, streamed. io when it cannot be read.
Result<std::string> hash_file(const std::string& path);

}  // namespace millwright
