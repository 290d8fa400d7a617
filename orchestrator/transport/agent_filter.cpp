#include "orchestrator/transport/agent_filter.hpp"

#include <openssl/evp.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <thread>

#include "orchestrator/transport/descriptor.hpp"

namespace millwright {
namespace {

// Of the agent protocol (draft-miller-ssh-agent): message numbers, and a limit against nonsense.
constexpr unsigned char kIdentitiesAnswer = 12;
constexpr std::size_t kMaxMessage = 256 * 1024;

std::uint32_t number_at(const std::string& bytes, std::size_t at) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < 4; ++i) value = value << 8 | static_cast<unsigned char>(bytes[at + i]);
  return value;
}

std::string number(std::size_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(value >> shift & 255);
  return bytes;
}

bool read_all(int fd, std::string& bytes) {
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t got = recv(fd, bytes.data() + done, bytes.size() - done, 0);
    if (got == 0 || (got < 0 && errno != EINTR)) return false;
    if (got > 0) done += static_cast<std::size_t>(got);
  }
  return true;
}

bool write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t put = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (put < 0 && errno != EINTR) return false;
    if (put > 0) bytes.remove_prefix(static_cast<std::size_t>(put));
  }
  return true;
}

std::optional<std::string> read_message(int fd) {
  std::string size(4, '\0');
  if (!read_all(fd, size) || number_at(size, 0) > kMaxMessage) return std::nullopt;
  std::string body(number_at(size, 0), '\0');
  if (!read_all(fd, body)) return std::nullopt;
  return body;
}

struct Identity {
  std::string blob;
  std::string bytes;  // blob and comment as on the wire
};

std::vector<Identity> parse(const std::string& body) {
  std::vector<Identity> all;
  for (std::size_t at = 5; at + 4 <= body.size();) {
    const std::size_t blob = number_at(body, at);
    const std::size_t comment_at = at + 4 + blob;
    if (comment_at + 4 > body.size()) break;
    const std::size_t end = comment_at + 4 + number_at(body, comment_at);
    if (end > body.size()) break;
    all.push_back({body.substr(at + 4, blob), body.substr(at, end - at)});
    at = end;
  }
  return all;
}

class Filter final : public AgentFilter {
 public:
  Filter(Descriptor agent, std::pair<Descriptor, Descriptor> pair, std::vector<std::string> first, OtherKeys others)
      : agent_(std::move(agent)),
        ours_(std::move(pair.first)),
        theirs_(std::move(pair.second)),
        first_(std::move(first)),
        others_(others),
        thread_([this] { serve(); }) {}
  ~Filter() override {
    shutdown(ours_.get(), SHUT_RDWR);
    shutdown(agent_.get(), SHUT_RDWR);
    thread_.join();
  }
  int release_socket() override { return theirs_.release(); }

 private:
  void serve() const {
    while (auto request = read_message(ours_.get())) {
      if (!write_all(agent_.get(), number(request->size()) + *request)) break;
      auto answer = read_message(agent_.get());
      if (!answer) break;
      if (!answer->empty() && static_cast<unsigned char>((*answer)[0]) == kIdentitiesAnswer) answer = filtered(*answer);
      if (!write_all(ours_.get(), number(answer->size()) + *answer)) break;
    }
    shutdown(ours_.get(), SHUT_RDWR);
  }

  std::string filtered(const std::string& answer) const {
    std::vector<Identity> left = parse(answer), shown;
    for (const std::string& blob : first_) {
      const auto found = std::find_if(left.begin(), left.end(), [&](const Identity& one) { return one.blob == blob; });
      if (found == left.end()) continue;
      shown.push_back(*found);
      left.erase(found);
    }
    if (others_ == OtherKeys::show_last) shown.insert(shown.end(), left.begin(), left.end());
    std::string body(1, static_cast<char>(kIdentitiesAnswer));
    body += number(shown.size());
    for (const Identity& one : shown) body += one.bytes;
    return body;
  }

  const Descriptor agent_, ours_;
  Descriptor theirs_;
  const std::vector<std::string> first_;
  const OtherKeys others_;
  std::thread thread_;
};

std::string decode(const std::string& base64) {
  std::string out(base64.size() / 4 * 3 + 3, '\0');
  const int size =
      EVP_DecodeBlock(reinterpret_cast<unsigned char*>(out.data()),
                      reinterpret_cast<const unsigned char*>(base64.data()), static_cast<int>(base64.size()));
  std::size_t padding = 0;
  while (padding < 2 && padding < base64.size() && base64[base64.size() - 1 - padding] == '=') ++padding;
  out.resize(size < 0 ? 0 : static_cast<std::size_t>(size) - padding);
  return out;
}

}  // namespace

Result<std::unique_ptr<AgentFilter>> make_agent_filter(const std::string& agent_socket,
                                                       const std::vector<std::string>& first, OtherKeys others) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (agent_socket.size() >= sizeof address.sun_path)
    return fail(ErrorKind::auth, "the agent's socket path is too long");
  std::memcpy(address.sun_path, agent_socket.c_str(), agent_socket.size() + 1);
  Descriptor agent(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (connect(agent.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
    return fail(ErrorKind::auth, "no agent at " + agent_socket + ": " + std::strerror(errno));
  }
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return fail(ErrorKind::io, std::strerror(errno));
  std::vector<std::string> blobs;
  blobs.reserve(first.size());
  for (const std::string& base64 : first) blobs.push_back(decode(base64));
  return std::make_unique<Filter>(std::move(agent), std::pair(Descriptor(ends[0]), Descriptor(ends[1])),
                                  std::move(blobs), others);
}

}  // namespace millwright
