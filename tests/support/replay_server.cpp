#include "tests/support/replay_server.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <stdexcept>

#include "orchestrator/base/text.hpp"

namespace millwright {
namespace {

constexpr std::size_t kMaxRequest = 4u << 20;
constexpr char kTlsHandshake = 0x16;  // RFC 8446: how a client begins that was told https

bool readable(int socket, Milliseconds patience) {
  pollfd entry{socket, POLLIN, 0};
  return ::poll(&entry, 1, static_cast<int>(patience.count())) > 0;
}

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

void parse_head(const std::string& head, ReplayRequest& request) {
  const std::vector<std::string> lines = split_lines(head);
  if (lines.empty()) return;
  const std::vector<std::string> words = split(lines.front(), ' ');
  if (words.size() >= 2) {
    request.method = words[0];
    request.path = words[1];
  }
  for (std::size_t i = 1; i < lines.size(); ++i) {
    const std::size_t colon = lines[i].find(':');
    if (colon == std::string::npos) continue;
    request.headers[lower(lines[i].substr(0, colon))] = std::string(trim(lines[i].substr(colon + 1)));
  }
}

std::size_t content_length(const ReplayRequest& request) {
  const auto found = request.headers.find("content-length");
  return found == request.headers.end() ? 0 : std::stoul(found->second);
}

// False: the client went away or took more than ten seconds.
bool read_request(int connection, ReplayRequest& request) {
  std::string bytes;
  std::size_t head_end = std::string::npos;
  while (bytes.size() < kMaxRequest) {
    if (!bytes.empty() && bytes.front() == kTlsHandshake) {
      request.method = "TLS";
      return true;
    }
    if (head_end == std::string::npos && (head_end = bytes.find("\r\n\r\n")) != std::string::npos) {
      parse_head(bytes.substr(0, head_end), request);
      if (request.headers.count("expect") > 0) {
        constexpr std::string_view go_on = "HTTP/1.1 100 Continue\r\n\r\n";
        if (::send(connection, go_on.data(), go_on.size(), MSG_NOSIGNAL) < 0) return false;
      }
    }
    if (head_end != std::string::npos && bytes.size() >= head_end + 4 + content_length(request)) {
      request.body = bytes.substr(head_end + 4, content_length(request));
      request.json = Value::parse(request.body, nullptr, false);
      if (request.json.is_discarded()) request.json = nullptr;
      return true;
    }
    char buffer[65536];
    if (!readable(connection, std::chrono::seconds(10))) return false;
    const ssize_t size = ::recv(connection, buffer, sizeof buffer, 0);
    if (size <= 0) return false;
    bytes.append(buffer, static_cast<std::size_t>(size));
  }
  return false;
}

void reset_on_close(int connection) {
  const linger now{1, 0};
  ::setsockopt(connection, SOL_SOCKET, SO_LINGER, &now, sizeof now);
}

}  // namespace

std::string ReplayRequest::ask() const {
  if (!json.is_object() || !json.contains("messages") || !json.at("messages").is_array()) return "";
  const Value& messages = json.at("messages");
  return messages.empty() ? "" : messages.back().value("content", "");
}

bool ReplayRequest::flag(const char* name) const { return json.is_object() && json.value(name, false); }

ReplayServer::ReplayServer(ReplayBehaviour behaviour) : behaviour_(std::move(behaviour)) {
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if (listener < 0 || ::bind(listener, generic, size) != 0 || ::listen(listener, 64) != 0 ||
      ::getsockname(listener, generic, &size) != 0) {
    throw std::runtime_error("cannot listen on loopback");
  }
  port_ = ntohs(address.sin_port);
  listener_ = listener;
  acceptor_ = std::thread([this] { accept_connections(); });
}

ReplayServer::~ReplayServer() {
  {
    const Lock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  acceptor_.join();
  close_port();
  std::vector<std::thread> connections;
  {
    const Lock lock(mutex_);
    connections.swap(connections_);
  }
  for (std::thread& connection : connections) connection.join();
}

void ReplayServer::close_port() {
  const int listener = listener_.exchange(-1);
  if (listener >= 0) ::close(listener);
}

std::vector<ReplayRequest> ReplayServer::requests() const {
  const Lock lock(mutex_);
  return requests_;
}

bool ReplayServer::wait(Milliseconds duration) {
  const SteadyPoint end = std::chrono::steady_clock::now() + duration;
  const Lock lock(mutex_);
  while (!stopping_) {
    const auto left = end - std::chrono::steady_clock::now();
    if (left.count() <= 0) return true;
    changed_.wait_for(mutex_, left);
  }
  return false;
}

void ReplayServer::accept_connections() {
  while (!stopping_) {
    const int listener = listener_;
    if (listener < 0) return;
    if (!readable(listener, Milliseconds(20))) continue;
    const int connection = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    if (connection < 0) continue;
    const Lock lock(mutex_);
    connections_.emplace_back([this, connection] { serve(connection); });
  }
}

ReplayReply ReplayServer::behave(ReplayRequest& request) {
  {
    const Lock lock(mutex_);
    request.number = static_cast<int>(requests_.size()) + 1;
    requests_.push_back(request);
  }
  const Lock lock(behaviour_mutex_);
  return behaviour_(request);
}

void ReplayServer::serve(int connection) {
  ReplayRequest request;
  if (read_request(connection, request)) send_reply(connection, behave(request));
  ::close(connection);
}

bool ReplayServer::send_all(int connection, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t size = ::send(connection, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (size <= 0) return false;
    bytes_sent_ += static_cast<std::uint64_t>(size);
    bytes.remove_prefix(static_cast<std::size_t>(size));
  }
  return true;
}

bool ReplayServer::send_piece(int connection, const ReplayPiece& piece, bool chunked) {
  std::string wire = piece.bytes;
  if (chunked && !piece.bytes.empty()) {
    char length[32];
    std::snprintf(length, sizeof length, "%zx\r\n", piece.bytes.size());
    wire = length + piece.bytes + "\r\n";
  }
  for (std::uint64_t i = 0; i < piece.times; ++i) {
    if (stopping_ || (piece.delay.count() > 0 && !wait(piece.delay)) || !send_all(connection, wire)) return false;
  }
  return true;
}

void ReplayServer::send_reply(int connection, const ReplayReply& reply) {
  if (reply.ending == ReplayEnding::refuse) return;
  const bool chunked = !reply.bare && starts_with(reply.content_type, "text/event-stream");
  std::uint64_t size = 0;
  for (const ReplayPiece& piece : reply.pieces) size += piece.bytes.size() * piece.times;
  if (reply.ending != ReplayEnding::whole) size += 1000;
  const bool silent = reply.bare || (reply.pieces.empty() && reply.ending == ReplayEnding::hang);
  std::string head = "HTTP/1.1 " + std::to_string(reply.status) +
                     " as told\r\nConnection: close\r\nContent-Type: " + reply.content_type + "\r\n";
  for (const auto& [name, value] : reply.headers) head += name + ": " + value + "\r\n";
  head += chunked ? "Transfer-Encoding: chunked\r\n\r\n" : "Content-Length: " + std::to_string(size) + "\r\n\r\n";
  bool going = silent || send_all(connection, head);
  for (const ReplayPiece& piece : reply.pieces) {
    if (!going) return;
    going = send_piece(connection, piece, chunked);
  }
  if (going && chunked && reply.ending == ReplayEnding::whole) send_all(connection, "0\r\n\r\n");
  if (reply.ending == ReplayEnding::reset) reset_on_close(connection);
  if (reply.ending != ReplayEnding::hang) return;
  while (wait(std::chrono::hours(1))) {
  }
}

}  // namespace millwright
