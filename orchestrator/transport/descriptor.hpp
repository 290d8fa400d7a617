// File descriptors that close themselves, and waiting on them with a deadline.
#pragma once

#include <poll.h>

#include <string_view>
#include <utility>
#include <vector>

#include "orchestrator/base/clock.hpp"
#include "orchestrator/base/error.hpp"

namespace millwright {

// Owns one descriptor. Not thread-safe by itself.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept;
  ~Descriptor() { close(); }
  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  void close();
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_ = -1;
};

// Close-on-exec pairs; io errors say which limit to raise.
Result<std::pair<Descriptor, Descriptor>> make_pipe();         // read end, write end
Result<std::pair<Descriptor, Descriptor>> make_socket_pair();  // non-blocking at both ends
void set_nonblocking(int fd);

// A counter that makes poll return: set from any thread, stays set until cleared.
class Wakeup {
 public:
  Wakeup();
  void set() const;
  void clear() const;
  int fd() const { return fd_.get(); }

 private:
  Descriptor fd_;
};

// poll until something is ready (its revents are filled) or the deadline passes (returns 0).
int poll_until(std::vector<pollfd>& set, SteadyPoint deadline);

// A peer that closes while we write is an error value, not a signal: SIGPIPE is ignored for the process, and reset for
// the programs it starts. The limit of open descriptors is raised to what the system allows (at most 65536: about six
// descriptors a host and lane). Idempotent.
void prepare_process();

}  // namespace millwright
