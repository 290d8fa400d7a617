#include "orchestrator/base/read_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <string_view>

#include "orchestrator/base/units.hpp"

namespace millwright {
namespace {

// As long as a person may take to type a passphrase for the command behind a pipe.
constexpr std::chrono::minutes kPipeDeadline{2};

// What a shell hands over as /dev/fd/N is that very pipe: opened anew, its end could not be told from a slow writer.
int open_file(const std::string& path, Pipes pipes) {
  constexpr std::string_view handed_over = "/dev/fd/";
  int number = -1;
  if (pipes == Pipes::read && path.compare(0, handed_over.size(), handed_over) == 0) {
    const char* const end = path.data() + path.size();
    const auto parsed = std::from_chars(path.data() + handed_over.size(), end, number);
    if (parsed.ec == std::errc() && parsed.ptr == end) return ::fcntl(number, F_DUPFD_CLOEXEC, 0);
  }
  // Not waiting: a pipe without a writer must not hold the call up.
  return ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
}

class File {
 public:
  File(const std::string& path, Pipes pipes) : fd_(open_file(path, pipes)) {}
  ~File() {
    if (fd_ >= 0) ::close(fd_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int fd() const { return fd_; }

 private:
  int fd_;
};

Failure problem(const std::string& path, const std::string& why, std::string hint) {
  return fail(
      make_error(ErrorKind::io, fmt::format("cannot read {}{}", path, why.empty() ? "" : ": " + why)).with_hint(hint));
}

Failure failed(const std::string& path, int code) {
  if (code == ENOENT || code == EACCES || code == ENOTDIR)
    return problem(path, "", "does it exist, and may you read it?");
  return problem(path, std::strerror(code), "");
}

std::string kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "it is a folder";
  if (S_ISFIFO(mode)) return "it is a pipe";
  if (S_ISSOCK(mode)) return "it is a socket";
  return "it is a device";
}

// Waits for more of a pipe, or its end; false: it took too long.
bool more_comes(int fd, std::chrono::steady_clock::time_point until) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
  if (left.count() <= 0) return false;
  pollfd waiting{fd, POLLIN, 0};
  return ::poll(&waiting, 1, static_cast<int>(left.count())) != 0;
}

}  // namespace

Result<std::string> read_file(const std::string& path, std::size_t max_bytes, Pipes pipes) {
  const File file(path, pipes);
  if (file.fd() < 0) return failed(path, errno);
  struct stat info {};
  if (::fstat(file.fd(), &info) != 0) return failed(path, errno);
  const bool pipe = pipes == Pipes::read && S_ISFIFO(info.st_mode);
  if (!S_ISREG(info.st_mode) && !pipe) return problem(path, kind_of(info.st_mode), "name a regular file");
  std::string out;
  std::array<char, 64 * 1024> buffer{};
  const auto until = std::chrono::steady_clock::now() + kPipeDeadline;
  // Not by the size that stat says: a file may grow meanwhile, and those of /proc have none.
  while (true) {
    if (pipe && !more_comes(file.fd(), until)) {
      return problem(path, "its pipe gave nothing for 2 minutes", "does the command behind it end?");
    }
    const ssize_t size = ::read(file.fd(), buffer.data(), buffer.size());
    if (size == 0) return out;
    if (size < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (size < 0) return failed(path, errno);
    if (out.size() + static_cast<std::size_t>(size) > max_bytes) {
      return problem(path, fmt::format("it is larger than {}", format_size(max_bytes)), "is it the right file?");
    }
    out.append(buffer.data(), static_cast<std::size_t>(size));
  }
}

}  // namespace millwright
