// Reading files of the controller that inputs name. Read-only; may be used from any thread.
#pragma once

#include <cstdint>
#include <string>

#include "orchestrator/base/error.hpp"

namespace millwright::core {

// The whole file. Errors (io) say what is wrong with the path: absent, a folder, not readable, larger than `max_bytes`.
Result<std::string> read_controller_file(const std::string& path, std::uint64_t max_bytes);

struct FileDigest {
  std::uint64_t size = 0;
  std::string sha256;
};
// Of a file of any size, without holding it in memory. It is read once, and again when it has changed. Errors as above.
Result<FileDigest> digest_controller_file(const std::string& path);

}  // namespace millwright::core
