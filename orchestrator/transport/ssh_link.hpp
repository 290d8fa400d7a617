// One logged-in ssh session and the thread that owns it.
//
// libssh sessions may be touched by one thread at a time. So a link's own thread is the only one that does, once login
// is over: it moves bytes between channels and descriptors, and everybody else holds descriptors. Public functions are
// safe for concurrent use.
#pragma once

#include <libssh/libssh.h>

#include <atomic>
#include <deque>
#include <list>
#include <memory>
#include <string>
#include <thread>

#include "orchestrator/base/mutex.hpp"
#include "orchestrator/transport/program.hpp"

namespace millwright {

struct SessionDeleter {
  void operator()(ssh_session session) const;
};
using SshSession = std::unique_ptr<ssh_session_struct, SessionDeleter>;

struct LinkSettings {
  Milliseconds alive_interval{15000};  // a keepalive when nothing was heard for so long
  int alive_count = 3;                 // unanswered ones before the link counts as lost
};

class SshLink : public std::enable_shared_from_this<SshLink> {
 public:
  // `carrier`: the stream to the jump host or proxy command that the session runs over, if any; kept alive.
  static std::shared_ptr<SshLink> start(SshSession session, std::shared_ptr<void> carrier, LinkSettings settings);
  ~SshLink();

  // Returns when the far end has opened the channel. Errors: busy (no more sessions), connect, timeout, interrupted.
  Result<std::unique_ptr<Program>> open_program(const std::string& command, SteadyPoint deadline);
  Result<std::unique_ptr<Program>> open_stream(const std::string& host, int port, SteadyPoint deadline);
  bool alive() const { return !lost_; }
  std::string lost_reason() const;
  void interrupt();  // ends the opens in progress
  void hang_up();    // ends everything: all streams see end of file

 private:
  struct Bridge;
  class ChannelProgram;
  struct Request {
    std::string command;  // or
    std::string host;
    int port = 0;
  };

  SshLink(SshSession session, std::shared_ptr<void> carrier, LinkSettings settings);
  Result<std::unique_ptr<Program>> open(Request request, SteadyPoint deadline);

  // Of the link's thread.
  void serve();
  void take_requests();
  bool step(Bridge& bridge);
  bool step_opening(Bridge& bridge);
  bool step_requesting(Bridge& bridge);
  bool from_channel(Bridge& bridge);
  bool to_channel(Bridge& bridge);
  void wait();
  void keep_alive();
  void settle(Bridge& bridge, Result<void> result);
  void close_all(const std::string& reason);

  SshSession session_;
  const std::shared_ptr<void> carrier_;
  const LinkSettings settings_;
  ssh_event event_;
  const std::unique_ptr<char[]> scratch_;  // not set to zero: a page that no transfer touched costs no memory
  std::list<std::shared_ptr<Bridge>> bridges_;
  SteadyPoint heard_;
  SteadyPoint asked_;
  int unanswered_ = 0;

  Wakeup wake_;
  std::atomic<bool> stop_ = false;
  std::atomic<bool> lost_ = false;
  mutable Mutex mutex_;
  Condition settled_;
  std::deque<std::shared_ptr<Bridge>> requests_ MW_GUARDED_BY(mutex_);
  std::string lost_reason_ MW_GUARDED_BY(mutex_);
  std::uint64_t interrupts_ MW_GUARDED_BY(mutex_) = 0;
  std::thread thread_;
};

}  // namespace millwright
