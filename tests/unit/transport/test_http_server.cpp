#include "tests/unit/transport/test_http_server.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>

namespace millwright {

TestHttpServer::TestHttpServer(Answer answer)
    : answer_(std::move(answer)), fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  bind(fd_, reinterpret_cast<sockaddr*>(&address), size);
  listen(fd_, 16);
  getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size);
  port_ = ntohs(address.sin_port);
  thread_ = std::thread([this] { serve(); });
}

TestHttpServer::~TestHttpServer() {
  shutdown(fd_, SHUT_RDWR);
  thread_.join();
  for (std::thread& handler : handlers_) handler.join();
  close(fd_);
}

void TestHttpServer::serve() {
  while (true) {
    const int client = accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC);
    if (client < 0) return;
    handlers_.emplace_back([this, client] { handle(client); });
  }
}

void TestHttpServer::handle(int client) const {
  std::string request;
  char buffer[4096];
  std::size_t wanted = std::string::npos;
  while (request.size() < wanted) {
    const ssize_t got = recv(client, buffer, sizeof buffer, 0);
    if (got <= 0) break;
    request.append(buffer, static_cast<std::size_t>(got));
    const std::size_t head = request.find("\r\n\r\n");
    if (head == std::string::npos) continue;
    const std::size_t length = request.find("Content-Length: ");
    wanted = head + 4 + (length < head ? std::strtoul(request.c_str() + length + 16, nullptr, 10) : 0);
  }
  answer_(request, [client](const std::string& bytes) {
    return send(client, bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size());
  });
  close(client);
}

}  // namespace millwright
