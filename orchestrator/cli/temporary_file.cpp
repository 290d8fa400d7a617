#include "orchestrator/cli/temporary_file.hpp"

#include <unistd.h>

#include <cstdlib>
#include <utility>

namespace millwright {

Result<TemporaryFile> TemporaryFile::with(std::string_view content) {
  const char* folder = std::getenv("TMPDIR");
  std::string path = std::string(folder == nullptr || *folder == '\0' ? "/tmp" : folder) + "/millwright-XXXXXX";
  const int descriptor = ::mkstemp(path.data());
  if (descriptor < 0) return fail(ErrorKind::io, "cannot make a temporary file " + path);
  TemporaryFile file(path);
  std::size_t written = 0;
  while (written < content.size()) {
    const ssize_t size = ::write(descriptor, content.data() + written, content.size() - written);
    if (size <= 0) break;
    written += static_cast<std::size_t>(size);
  }
  ::close(descriptor);
  if (written < content.size()) return fail(ErrorKind::io, "cannot write " + path);
  return file;
}

TemporaryFile::TemporaryFile(TemporaryFile&& other) noexcept : path_(std::exchange(other.path_, {})) {}

TemporaryFile::~TemporaryFile() {
  if (!path_.empty()) ::unlink(path_.c_str());
}

}  // namespace millwright
