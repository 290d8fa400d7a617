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
  std::string method, path;                    // "TLS": the client wants TLS, which this server does not speak
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;
  Value json;                         // of the body; null when it is none
  int number = 0;                     // of this server, from 1
  std::string ask() const;            // content of the last message; empty when there is none
  bool flag(const char* name) const;  // true in the body
};

struct ReplayPiece {
  std::string bytes;
  Milliseconds delay{0};    // before it is sent
  std::uint64_t times = 1;  // sent so often, each time after the delay; kForever until the other side has enough
};
inline constexpr std::uint64_t kForever = 1ull << 40;

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
  bool bare = false;  // the pieces are all that is sent: no status line, no header, no chunks
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
  // Bytes that went out so far, those in the socket's buffers included.
  std::uint64_t bytes_sent() const { return bytes_sent_; }
  // Closes the port: later connections are refused. Callable from the behaviour.
  void close_port();

 private:
  void accept_connections();
  void serve(int connection);
  ReplayReply behave(ReplayRequest& request);
  void send_reply(int connection, const ReplayReply& reply);
  bool send_piece(int connection, const ReplayPiece& piece, bool chunked);
  bool send_all(int connection, std::string_view bytes);
  bool wait(Milliseconds duration);  // false: stopping

  ReplayBehaviour behaviour_;
  std::atomic<int> listener_{-1};
  int port_ = 0;
  std::atomic<bool> stopping_{false};
  std::atomic<std::uint64_t> bytes_sent_{0};
  mutable Mutex mutex_;
  Condition changed_;
  std::vector<ReplayRequest> requests_ MW_GUARDED_BY(mutex_);
  std::vector<std::thread> connections_ MW_GUARDED_BY(mutex_);
  Mutex behaviour_mutex_;
  std::thread acceptor_;
};

}  // namespace millwright
