// A TCP server on 127.0.0.1 that reads a request head and then says exactly what a test wants, piece by piece.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace millwright {

class TestHttpServer {
 public:
  using Say = std::function<bool(const std::string& bytes)>;  // false: the client has gone
  // Called on a thread of its own for each connection with the request's bytes; the connection closes when it returns.
  using Answer = std::function<void(const std::string& request, const Say& say)>;
  explicit TestHttpServer(Answer answer);
  ~TestHttpServer();
  int port() const { return port_; }
  std::string url(const std::string& path = "/") const { return "http://127.0.0.1:" + std::to_string(port_) + path; }

 private:
  void serve();
  void handle(int client) const;
  Answer answer_;
  int fd_ = -1, port_ = 0;
  std::mutex mutex_;
  std::vector<std::thread> handlers_;
  std::thread thread_;
};

}  // namespace millwright
