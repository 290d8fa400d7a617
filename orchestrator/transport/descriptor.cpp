#include "orchestrator/transport/descriptor.hpp"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>

namespace millwright {
namespace {

constexpr rlim_t kWantedDescriptors = 65536;

Failure no_descriptor() {
  return fail(make_error(ErrorKind::io, std::string("cannot make a pipe: ") + std::strerror(errno))
                  .with_hint("raise the limit of open files (ulimit -n) or use fewer --forks"));
}

}  // namespace

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  if (this != &other) {
    close();
    fd_ = other.release();
  }
  return *this;
}

void Descriptor::close() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

Result<std::pair<Descriptor, Descriptor>> make_pipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return no_descriptor();
  return std::pair(Descriptor(ends[0]), Descriptor(ends[1]));
}

Result<std::pair<Descriptor, Descriptor>> make_socket_pair() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) return no_descriptor();
  return std::pair(Descriptor(ends[0]), Descriptor(ends[1]));
}

void set_nonblocking(int fd) { fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK); }

Wakeup::Wakeup() : fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

void Wakeup::set() const {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(fd_.get(), &one, sizeof one);
}

void Wakeup::clear() const {
  std::uint64_t count = 0;
  [[maybe_unused]] const ssize_t got = read(fd_.get(), &count, sizeof count);
}

int poll_until(std::vector<pollfd>& set, SteadyPoint deadline) {
  while (true) {
    const auto now = std::chrono::steady_clock::now();
    const auto left = std::chrono::ceil<Milliseconds>(deadline - now).count();
    const int timeout = static_cast<int>(std::clamp<long long>(left, 0, 3'600'000));
    const int ready = poll(set.data(), set.size(), timeout);
    if (ready > 0) return ready;
    if (ready < 0 && errno != EINTR) return 0;
    if (std::chrono::steady_clock::now() >= deadline) return 0;
  }
}

void prepare_process() {
  static const bool done = [] {
    struct sigaction current {};
    sigaction(SIGPIPE, nullptr, &current);
    if (current.sa_handler == SIG_DFL) std::signal(SIGPIPE, SIG_IGN);
    rlimit limit{};
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < kWantedDescriptors) {
      limit.rlim_cur = std::min(limit.rlim_max, kWantedDescriptors);
      setrlimit(RLIMIT_NOFILE, &limit);
    }
    return true;
  }();
  static_cast<void>(done);
}

}  // namespace millwright
