#include "steps/core/controller_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>

#include "orchestrator/base/text.hpp"
#include "orchestrator/base/units.hpp"

namespace millwright::core {

namespace {

class Mapping {
 public:
  static Result<Mapping> open(const std::string& path) {
    const auto failed = [&path](int code) {
      return fail(ErrorKind::io, fmt::format("cannot read {}: {}", path, std::strerror(code)));
    };
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) return failed(errno);
    struct stat info {};
    Mapping mapping;
    const bool known = ::fstat(fd, &info) == 0;
    const int code = errno;
    if (known && S_ISREG(info.st_mode) && info.st_size > 0) {
      mapping.size_ = static_cast<std::size_t>(info.st_size);
      mapping.data_ = ::mmap(nullptr, mapping.size_, PROT_READ, MAP_PRIVATE, fd, 0);
    }
    const int map_code = errno;
    ::close(fd);
    if (!known) return failed(code);
    if (!S_ISREG(info.st_mode)) return fail(ErrorKind::io, fmt::format("{} is not a file", path));
    if (mapping.data_ == MAP_FAILED) {
      mapping.data_ = nullptr;
      return failed(map_code);
    }
    return mapping;
  }
  Mapping(Mapping&& other) noexcept : data_(other.data_), size_(other.size_) { other.data_ = nullptr; }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  Mapping& operator=(Mapping&&) = delete;
  ~Mapping() {
    if (data_ != nullptr) ::munmap(data_, size_);
  }
  std::string_view bytes() const { return {static_cast<const char*>(data_), data_ == nullptr ? 0 : size_}; }

 private:
  Mapping() = default;
  void* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace

Result<std::string> read_controller_file(const std::string& path, std::uint64_t max_bytes) {
  const auto mapping = Mapping::open(path);
  if (!mapping) return fail(mapping.error());
  if (mapping->bytes().size() > max_bytes) {
    return fail(ErrorKind::io, fmt::format("{} is {}, and at most {} are taken here", path,
                                           format_size(mapping->bytes().size()), format_size(max_bytes)));
  }
  return std::string(mapping->bytes());
}

Result<FileDigest> digest_controller_file(const std::string& path) {
  const auto mapping = Mapping::open(path);
  if (!mapping) return fail(mapping.error());
  return FileDigest{mapping->bytes().size(), sha256_hex(mapping->bytes())};
}

}  // namespace millwright::core
