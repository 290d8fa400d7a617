#include "orchestrator/transport/ssh_link.hpp"

#include <libssh/server.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>

namespace millwright {
namespace {

constexpr std::size_t kChunk = 256 * 1024;

std::string error_text(ssh_session session) {
  const char* text = ssh_get_error(session);
  return text != nullptr && *text != '\0' ? text : "the connection was closed";
}

}  // namespace

// libssh closes a socket that it was given when the peer hangs up, and leaves it open otherwise.
void SessionDeleter::operator()(ssh_session session) const {
  const int fd = ssh_get_fd(session);
  struct stat before = {};
  struct stat after = {};
  const bool open = fd >= 0 && fstat(fd, &before) == 0;
  ssh_disconnect(session);
  ssh_free(session);
  if (open && fstat(fd, &after) == 0 && before.st_ino == after.st_ino && before.st_dev == after.st_dev) close(fd);
}

enum class Stage { opening, requesting, running, over };

// A channel and the descriptors it is joined to. Its `outcome` is guarded by the link's mutex, `abandoned` is set by
// the program's owner; the rest belongs to the link's thread.
struct SshLink::Bridge {
  Request request;
  ssh_channel channel = nullptr;
  Stage stage = Stage::opening;
  bool request_done = false;
  Descriptor data, errors;  // our ends
  std::string up, down, down_errors;
  bool up_ended = false, eof_sent = false, out_ended = false, errors_ended = false;
  std::optional<Result<void>> outcome;
  std::atomic<bool> abandoned = false;
};

class SshLink::ChannelProgram final : public Program {
 public:
  ChannelProgram(std::shared_ptr<SshLink> link, std::shared_ptr<Bridge> bridge, Descriptor data, Descriptor errors)
      : link_(std::move(link)), bridge_(std::move(bridge)), data_(std::move(data)), errors_(std::move(errors)) {}
  ~ChannelProgram() override {
    data_.close();
    errors_.close();
    bridge_->abandoned = true;
    link_->wake_.set();
  }
  int input() const override { return data_.get(); }
  int output() const override { return data_.get(); }
  int errors() const override { return errors_.get(); }
  void close_input() override { shutdown(data_.get(), SHUT_WR); }
  std::string lost() const override { return link_->lost_reason(); }

 private:
  const std::shared_ptr<SshLink> link_;
  const std::shared_ptr<Bridge> bridge_;
  Descriptor data_, errors_;
};

std::shared_ptr<SshLink> SshLink::start(SshSession session, std::shared_ptr<void> carrier, LinkSettings settings) {
  std::shared_ptr<SshLink> link(new SshLink(std::move(session), std::move(carrier), settings));
  link->thread_ = std::thread([raw = link.get()] { raw->serve(); });
  return link;
}

SshLink::SshLink(SshSession session, std::shared_ptr<void> carrier, LinkSettings settings)
    : session_(std::move(session)),
      carrier_(std::move(carrier)),
      settings_(settings),
      event_(ssh_event_new()),
      scratch_(new char[kChunk]) {
  ssh_set_blocking(session_.get(), 0);
  ssh_event_add_session(event_, session_.get());
  heard_ = asked_ = std::chrono::steady_clock::now();
}

SshLink::~SshLink() {
  hang_up();
  thread_.join();
  ssh_event_free(event_);
  session_.reset();  // before what it runs over
}

std::string SshLink::lost_reason() const {
  const Lock lock(mutex_);
  return lost_reason_;
}

void SshLink::interrupt() {
  const Lock lock(mutex_);
  ++interrupts_;
  settled_.notify_all();
}

void SshLink::hang_up() {
  stop_ = true;
  wake_.set();
}

Result<std::unique_ptr<Program>> SshLink::open_program(const std::string& command, SteadyPoint deadline) {
  return open({command, {}, 0}, deadline);
}

Result<std::unique_ptr<Program>> SshLink::open_stream(const std::string& host, int port, SteadyPoint deadline) {
  return open({{}, host, port}, deadline);
}

Result<std::unique_ptr<Program>> SshLink::open(Request request, SteadyPoint deadline) {
  auto bridge = std::make_shared<Bridge>();
  bridge->request = std::move(request);
  auto data = make_socket_pair();
  if (!data) return Failure(data.error());
  bridge->data = std::move(data->second);
  Descriptor errors;
  if (!bridge->request.command.empty()) {
    auto pair = make_pipe();
    if (!pair) return Failure(pair.error());
    errors = std::move(pair->first);
    bridge->errors = std::move(pair->second);
    set_nonblocking(errors.get());
    set_nonblocking(bridge->errors.get());
  } else {
    bridge->errors_ended = true;
  }
  const Lock lock(mutex_);
  if (lost_) return fail(ErrorKind::connect, "the connection was lost: " + lost_reason_);
  requests_.push_back(bridge);
  wake_.set();
  const std::uint64_t interrupts = interrupts_;
  while (!bridge->outcome) {
    const auto left = deadline - std::chrono::steady_clock::now();
    const bool interrupted = interrupts_ != interrupts;
    if (interrupted || left <= left.zero()) {
      bridge->abandoned = true;
      wake_.set();
      if (interrupted) return fail(ErrorKind::interrupted, "interrupted while opening a channel");
      return fail(ErrorKind::timeout, "the node did not open a channel in time");
    }
    settled_.wait_for(mutex_, left);
  }
  if (!*bridge->outcome) return Failure(bridge->outcome->error());
  return std::make_unique<ChannelProgram>(shared_from_this(), bridge, std::move(data->first), std::move(errors));
}

void SshLink::settle(Bridge& bridge, Result<void> result) {
  const Lock lock(mutex_);
  if (!bridge.outcome) bridge.outcome = std::move(result);
  settled_.notify_all();
}

void SshLink::serve() {
  while (!stop_) {
    take_requests();
    bool moved = true;
    while (moved && !stop_) {
      moved = false;
      for (const auto& bridge : bridges_) moved = step(*bridge) || moved;
      for (auto at = bridges_.begin(); at != bridges_.end();) {
        if ((*at)->stage != Stage::over) {
          ++at;
          continue;
        }
        if ((*at)->channel != nullptr) ssh_channel_free((*at)->channel);
        at = bridges_.erase(at);
      }
    }
    wait();
    // Before any stream is told of its end, so that nobody takes a lost connection for a program that ended.
    if (ssh_is_connected(session_.get()) == 0) return close_all(error_text(session_.get()));
    if (unanswered_ > settings_.alive_count) {
      return close_all("no answer to " + std::to_string(settings_.alive_count) + " keepalives");
    }
  }
  close_all("it was closed here");
}

void SshLink::take_requests() {
  const Lock lock(mutex_);
  for (auto& bridge : requests_) bridges_.push_back(std::move(bridge));
  requests_.clear();
}

void SshLink::wait() {
  const int fd = ssh_get_fd(session_.get());
  const int one = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_QUICKACK, &one, sizeof one);
  const bool pending = (ssh_get_poll_flags(session_.get()) & SSH_WRITE_PENDING) != 0;
  std::vector<pollfd> set{{fd, static_cast<short>(POLLIN | (pending ? POLLOUT : 0)), 0}, {wake_.fd(), POLLIN, 0}};
  for (const auto& bridge : bridges_) {
    if (bridge->stage != Stage::running) continue;
    // Nothing more is read from a descriptor than the far end has room for.
    const bool room =
        !pending && bridge->up.empty() && !bridge->up_ended && ssh_channel_window_size(bridge->channel) > 0;
    const short data = static_cast<short>((room ? POLLIN : 0) | (bridge->down.empty() ? 0 : POLLOUT));
    if (data != 0) set.push_back({bridge->data.get(), data, 0});
    if (!bridge->down_errors.empty()) set.push_back({bridge->errors.get(), POLLOUT, 0});
  }
  const auto next = std::max(heard_, asked_) + settings_.alive_interval;
  poll_until(set, next);
  if (set[1].revents != 0) wake_.clear();
  if (set[0].revents != 0) {
    if ((set[0].revents & POLLIN) != 0) {
      heard_ = std::chrono::steady_clock::now();
      unanswered_ = 0;
    }
    ssh_event_dopoll(event_, 0);
  }
  if (std::chrono::steady_clock::now() >= next) keep_alive();
}

void SshLink::keep_alive() {
  asked_ = std::chrono::steady_clock::now();
  ++unanswered_;
  // The answer to an earlier one is only taken note of by the call after it.
  if (ssh_send_keepalive(session_.get()) != SSH_AGAIN) ssh_send_keepalive(session_.get());
}

bool SshLink::step(Bridge& bridge) {
  if (bridge.stage == Stage::over) return false;
  if (bridge.abandoned) {
    if (bridge.channel != nullptr && ssh_channel_is_open(bridge.channel) != 0) ssh_channel_close(bridge.channel);
    bridge.stage = Stage::over;
    return false;
  }
  if (bridge.stage == Stage::opening) return step_opening(bridge);
  if (bridge.stage == Stage::requesting || !bridge.request_done) {
    if (step_requesting(bridge)) return true;
    if (bridge.stage != Stage::running) return false;
  }
  const bool down = from_channel(bridge);
  const bool up = to_channel(bridge);
  if (bridge.out_ended && bridge.errors_ended && bridge.down.empty() && bridge.down_errors.empty()) {
    // A program that has ended takes no more input; a stream may still be half open.
    if (!bridge.request.command.empty() || bridge.eof_sent || ssh_channel_is_closed(bridge.channel) != 0) {
      ssh_channel_close(bridge.channel);
      bridge.data.close();
      bridge.errors.close();
      bridge.stage = Stage::over;
    }
  }
  return down || up;
}

bool SshLink::step_opening(Bridge& bridge) {
  const Request& request = bridge.request;
  if (bridge.channel == nullptr) bridge.channel = ssh_channel_new(session_.get());
  const int rc = request.command.empty()
                     ? ssh_channel_open_forward(bridge.channel, request.host.c_str(), request.port, "127.0.0.1", 0)
                     : ssh_channel_open_session(bridge.channel);
  if (rc == SSH_AGAIN) return false;
  if (rc != SSH_OK) {
    const std::string text = error_text(session_.get());
    const bool refused = ssh_is_connected(session_.get()) != 0;
    bridge.stage = Stage::over;
    if (request.command.empty()) {
      settle(bridge, fail(ErrorKind::connect, "cannot reach " + request.host + ":" + std::to_string(request.port) +
                                                  " from there: " + text));
    } else {
      settle(bridge, fail(make_error(refused ? ErrorKind::busy : ErrorKind::connect, "no more channels: " + text)
                              .with_hint("raise MaxSessions in the node's sshd_config")));
    }
    return true;
  }
  if (request.command.empty()) {
    bridge.request_done = true;
    bridge.stage = Stage::running;
    settle(bridge, {});
  } else {
    bridge.stage = Stage::requesting;
  }
  return true;
}

// Input may follow the request at once: sshd takes both in order, and the answer costs no wait of its own.
bool SshLink::step_requesting(Bridge& bridge) {
  const int rc = ssh_channel_request_exec(bridge.channel, bridge.request.command.c_str());
  const bool first = bridge.stage == Stage::requesting;
  if (rc == SSH_AGAIN || rc == SSH_OK) {
    bridge.request_done = rc == SSH_OK;
    bridge.stage = Stage::running;
    if (first) settle(bridge, {});
    return first;
  }
  settle(bridge, fail(ErrorKind::connect, "the node refused to start a program: " + error_text(session_.get())));
  ssh_channel_close(bridge.channel);
  bridge.data.close();
  bridge.errors.close();
  bridge.stage = Stage::over;
  return true;
}

namespace {

// One stream of a channel into one descriptor; true when bytes moved.
bool drain(ssh_channel channel, int is_errors, std::string& held, Descriptor& into, bool& ended) {
  bool moved = false;
  if (held.empty() && !ended) {
    std::array<char, 64 * 1024> buffer;
    const int got = ssh_channel_read_nonblocking(channel, buffer.data(), buffer.size(), is_errors);
    if (got > 0) held.assign(buffer.data(), static_cast<std::size_t>(got));
    ended = got < 0 || (got == 0 && (ssh_channel_is_eof(channel) != 0 || ssh_channel_is_closed(channel) != 0));
    moved = got > 0;
  }
  if (!held.empty()) {
    const ssize_t put = write(into.get(), held.data(), held.size());
    if (put > 0) held.erase(0, static_cast<std::size_t>(put));
    if (put < 0 && errno != EAGAIN && errno != EINTR) held.clear();  // nobody reads it any more
    moved = moved || put > 0;
  }
  return moved;
}

}  // namespace

bool SshLink::from_channel(Bridge& bridge) {
  const bool out_before = bridge.out_ended, errors_before = bridge.errors_ended;
  bool moved = drain(bridge.channel, 0, bridge.down, bridge.data, bridge.out_ended);
  if (!bridge.request.command.empty()) {
    moved = drain(bridge.channel, 1, bridge.down_errors, bridge.errors, bridge.errors_ended) || moved;
  }
  if (bridge.out_ended && bridge.down.empty()) shutdown(bridge.data.get(), SHUT_WR);
  if (bridge.errors_ended && bridge.down_errors.empty()) bridge.errors.close();
  return moved || out_before != bridge.out_ended || errors_before != bridge.errors_ended;
}

bool SshLink::to_channel(Bridge& bridge) {
  bool moved = false;
  std::string_view up = bridge.up;
  if (up.empty() && !bridge.up_ended && bridge.data.valid()) {
    const std::size_t room = std::min<std::size_t>(kChunk, ssh_channel_window_size(bridge.channel));
    if (room == 0 || (ssh_get_poll_flags(session_.get()) & SSH_WRITE_PENDING) != 0) return false;
    const ssize_t got = read(bridge.data.get(), scratch_.get(), room);
    bridge.up_ended = got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR);
    if (got > 0) up = std::string_view(scratch_.get(), static_cast<std::size_t>(got));
    moved = got >= 0;
  }
  if (!up.empty()) {
    const std::size_t room = std::min<std::size_t>(up.size(), ssh_channel_window_size(bridge.channel));
    const int put = room == 0 ? 0 : ssh_channel_write(bridge.channel, up.data(), static_cast<uint32_t>(room));
    bridge.up = put < 0 ? std::string() : std::string(up.substr(static_cast<std::size_t>(put)));
    if (put < 0) bridge.up_ended = bridge.eof_sent = true;
    moved = moved || put > 0;
  }
  if (bridge.up_ended && bridge.up.empty() && !bridge.eof_sent) {
    ssh_channel_send_eof(bridge.channel);
    bridge.eof_sent = true;
    moved = true;
  }
  return moved;
}

void SshLink::close_all(const std::string& reason) {
  const Lock lock(mutex_);
  lost_reason_ = reason;
  lost_ = true;
  for (auto& bridge : requests_) bridges_.push_back(std::move(bridge));
  requests_.clear();
  for (const auto& bridge : bridges_) {
    if (!bridge->outcome) bridge->outcome = fail(ErrorKind::connect, "the connection was lost: " + reason);
    bridge->data.close();
    bridge->errors.close();
    if (bridge->channel != nullptr) ssh_channel_free(bridge->channel);
  }
  bridges_.clear();
  settled_.notify_all();
}

}  // namespace millwright
