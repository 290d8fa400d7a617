#pragma once

#include <string>
#include <string_view>

#include "orchestrator/base/error.hpp"

namespace millwright {

// A file of mode 0600 in $TMPDIR or /tmp that goes away with its object.
class TemporaryFile {
 public:
  static Result<TemporaryFile> with(std::string_view content);
  TemporaryFile(TemporaryFile&& other) noexcept;
  TemporaryFile& operator=(TemporaryFile&&) = delete;
  ~TemporaryFile();
  const std::string& path() const { return path_; }

 private:
  explicit TemporaryFile(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

}  // namespace millwright
