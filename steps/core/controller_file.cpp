#include "steps/core/controller_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <tuple>

#include "orchestrator/base/mutex.hpp"
#include "orchestrator/base/text.hpp"
#include "orchestrator/base/units.hpp"

namespace millwright::core {

namespace {

// Differs when a file's content may: device, inode, size, and the times of its last changes.
using Version = std::tuple<dev_t, ino_t, off_t, time_t, long, time_t, long>;

class Mapping {
 public:
  static Result<Mapping> open(const std::string& path) {
    const auto failed = [&path](int code) {
      return fail(ErrorKind::io, fmt::format("cannot read {}: {}", path, std::strerror(code)));
    };
    // Not waiting: a pipe without a writer must not hold the call up before it is seen to be one.
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
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
    mapping.version_ = {info.st_dev,          info.st_ino,         info.st_size,        info.st_mtim.tv_sec,
                        info.st_mtim.tv_nsec, info.st_ctim.tv_sec, info.st_ctim.tv_nsec};
    if (!known) return failed(code);
    if (!S_ISREG(info.st_mode)) return fail(ErrorKind::io, fmt::format("{} is not a file", path));
    if (mapping.data_ == MAP_FAILED) {
      mapping.data_ = nullptr;
      return failed(map_code);
    }
    return mapping;
  }
  Mapping(Mapping&& other) noexcept : data_(other.data_), size_(other.size_), version_(other.version_) {
    other.data_ = nullptr;
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  Mapping& operator=(Mapping&&) = delete;
  ~Mapping() {
    if (data_ != nullptr) ::munmap(data_, size_);
  }
  const Version& version() const { return version_; }
  // Clocks of file systems tick slowly, so a file that has just changed may change again and look the same.
  bool settled() const { return std::time(nullptr) - std::get<5>(version_) > 2; }
  std::string_view bytes() const { return {static_cast<const char*>(data_), data_ == nullptr ? 0 : size_}; }

 private:
  Mapping() = default;
  void* data_ = nullptr;
  std::size_t size_ = 0;
  Version version_;
};

// What the content of a file was when it was last read: many hosts and several plans ask for the same one.
struct Known {
  Mutex mutex;
  std::optional<Version> version MW_GUARDED_BY(mutex);
  FileDigest digest MW_GUARDED_BY(mutex);
};

Known& known_file(const std::string& path) {
  static Mutex mutex;
  static std::map<std::string, std::unique_ptr<Known>> files;
  const Lock guard(mutex);
  std::unique_ptr<Known>& known = files[path];
  if (!known) known = std::make_unique<Known>();
  return *known;
}

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
  Known& known = known_file(path);
  const Lock guard(known.mutex);
  if (known.version != mapping->version()) {
    known.digest = {mapping->bytes().size(), sha256_hex(mapping->bytes())};
    known.version = mapping->settled() ? std::optional(mapping->version()) : std::nullopt;
  }
  return known.digest;
}

}  // namespace millwright::core
