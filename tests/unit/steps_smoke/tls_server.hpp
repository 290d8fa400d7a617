// A real HTTPS server in a process of its own: tests/support/tls_server.py.
#pragma once

#include <sys/types.h>

#include <string>

namespace millwright {

class TlsServer {
 public:
  explicit TlsServer(const std::string& kind);  // "trusted", "other-name", "expired" or "h2"
  ~TlsServer();
  TlsServer(const TlsServer&) = delete;
  TlsServer& operator=(const TlsServer&) = delete;

  std::string authority() const { return "127.0.0.1:" + std::to_string(port_); }
  const std::string& certificate() const { return certificate_; }

 private:
  pid_t process_ = -1;
  int input_ = -1;
  int port_ = 0;
  std::string certificate_;
};

}  // namespace millwright
