// A real HTTP/1.1 server on loopback that behaves as a case says: what it answers, in which pieces, after which delays,
// and how the connection ends. One thread per connection, one request per connection.
//
// The behaviour is called from connection threads, one at a time.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "orchestrator/base/clock.hpp"
#include "orchestrator/base/mutex.hpp"
#include "orchestrator/base/value.hpp"

namespace millwright {

struct ReplayRequest {
  std::string method, path;
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;
  Value json;                         // of the body; null when it is none
  int number = 0;                     // of this server, from 1
  std::string ask() const;            // content of the last message; empty when there is none
  bool flag(const char* name) const;  // true in the body
};

struct ReplayPiece {
  std::string bytes;
  Milliseconds delay{0};  // before it is sent
};

enum class ReplayEnding {
  whole,   // as HTTP wants it
  cut,     // fewer bytes than announced, then closed
  hang,    // nothing more, until the server is stopped
  reset,   // TCP reset
  refuse,  // closed before the status line
};

struct ReplayReply {
  int status = 200;
  std::string content_type = "application/json";
  std::map<std::string, std::string> headers;
  std::vector<ReplayPiece> pieces;
  ReplayEnding ending = ReplayEnding::whole;
};

using ReplayBehaviour = std::function<ReplayReply(const ReplayRequest&)>;

class ReplayServer {
 public:
  explicit ReplayServer(ReplayBehaviour behaviour);
  ~ReplayServer();  // stops, also what hangs
  ReplayServer(const ReplayServer&) = delete;
  ReplayServer& operator=(const ReplayServer&) = delete;

  int port() const { return port_; }
  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }
  std::vector<ReplayRequest> requests() const;
  // Closes the port: later connections are refused. Callable from the behaviour.
  void close_port();

 private:
  void accept_connections();
  void serve(int connection);
  ReplayReply behave(ReplayRequest& request);
  void send_reply(int connection, const ReplayReply& reply);
  bool wait(Milliseconds duration);  // false: stopping

  ReplayBehaviour behaviour_;
  std::atomic<int> listener_{-1};
  int port_ = 0;
  std::atomic<bool> stopping_{false};
  mutable Mutex mutex_;
  Condition changed_;
  std::vector<ReplayRequest> requests_ MW_GUARDED_BY(mutex_);
  std::vector<std::thread> connections_ MW_GUARDED_BY(mutex_);
  Mutex behaviour_mutex_;
  std::thread acceptor_;
};

}  // namespace millwright
