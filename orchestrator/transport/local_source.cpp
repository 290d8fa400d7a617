#include "orchestrator/transport/local_source.hpp"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <thread>

extern char** environ;

namespace millwright {
namespace {

void reap_later(pid_t pid) {
  std::thread([pid] { waitpid(pid, nullptr, 0); }).detach();
}

Result<pid_t> spawn_shell(const std::string& command, int in, int out, int err) {
  prepare_process();
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in, 0);
  posix_spawn_file_actions_adddup2(&actions, out, 1);
  posix_spawn_file_actions_adddup2(&actions, err, 2);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  std::string shell = "/bin/sh", flag = "-c", text = command;
  char* arguments[] = {shell.data(), flag.data(), text.data(), nullptr};
  pid_t pid = 0;
  const int error = posix_spawn(&pid, "/bin/sh", &actions, &attributes, arguments, environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (error != 0) return fail(ErrorKind::connect, std::string("cannot start /bin/sh here: ") + std::strerror(error));
  return pid;
}

class LocalProgram final : public Program {
 public:
  LocalProgram(pid_t pid, Descriptor in, Descriptor out, Descriptor err)
      : pid_(pid), in_(std::move(in)), out_(std::move(out)), err_(std::move(err)) {}
  ~LocalProgram() override {
    in_.close();
    out_.close();
    err_.close();
    // A shell that reads end of file is gone at once; a program that goes on is not waited for.
    if (waitpid(pid_, nullptr, WNOHANG) == 0) reap_later(pid_);
  }
  int input() const override { return in_.get(); }
  int output() const override { return out_.get(); }
  int errors() const override { return err_.get(); }
  void close_input() override { in_.close(); }
  std::string lost() const override { return {}; }

 private:
  pid_t pid_;
  Descriptor in_, out_, err_;
};

class LocalStream final : public Program {
 public:
  explicit LocalStream(Descriptor socket) : socket_(std::move(socket)) {}
  int input() const override { return socket_.get(); }
  int output() const override { return socket_.get(); }
  int errors() const override { return -1; }
  void close_input() override { shutdown(socket_.get(), SHUT_WR); }
  std::string lost() const override { return {}; }

 private:
  Descriptor socket_;
};

class LocalSource final : public ProgramSource {
 public:
  std::string name() const override { return "this machine"; }
  Result<std::unique_ptr<Program>> start(const std::string& command, SteadyPoint) override {
    return start_local(command);
  }
  Result<std::unique_ptr<Program>> dial(const std::string& host, int port, SteadyPoint deadline) override {
    auto socket = connect_tcp(host, port, deadline, -1);
    if (!socket) return Failure(socket.error());
    return std::make_unique<LocalStream>(std::move(*socket));
  }
  Result<void> reconnect(SteadyPoint) override { return {}; }
  bool alive() const override { return true; }
  void interrupt() override {}
};

Result<Descriptor> connect_address(const addrinfo& address, SteadyPoint deadline, int wake, std::string& reason) {
  Descriptor socket(::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int one = 1;
  setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  int error = 0;
  if (connect(socket.get(), address.ai_addr, address.ai_addrlen) != 0) error = errno;
  if (error == EINPROGRESS) {
    std::vector<pollfd> set{{socket.get(), POLLOUT, 0}, {wake, POLLIN, 0}};
    if (poll_until(set, deadline) == 0) {
      return fail(ErrorKind::timeout, "no answer");
    }
    if (set[1].revents != 0) return fail(ErrorKind::interrupted, "interrupted while connecting");
    socklen_t size = sizeof error;
    getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  }
  if (error != 0) {
    reason = std::strerror(error);
    return fail(ErrorKind::connect, reason);
  }
  return socket;
}

}  // namespace

Result<std::unique_ptr<Program>> start_local(const std::string& command) {
  auto in = make_pipe();
  auto out = make_pipe();
  auto err = make_pipe();
  for (const auto* pair : {&in, &out, &err}) {
    if (!*pair) return Failure(pair->error());
  }
  const auto pid = spawn_shell(command, in->first.get(), out->second.get(), err->second.get());
  if (!pid) return Failure(pid.error());
  set_nonblocking(in->second.get());
  set_nonblocking(out->first.get());
  set_nonblocking(err->first.get());
  return std::make_unique<LocalProgram>(*pid, std::move(in->second), std::move(out->first), std::move(err->first));
}

Result<Descriptor> start_joined(const std::string& command) {
  auto pair = make_socket_pair();
  if (!pair) return Failure(pair.error());
  fcntl(pair->second.get(), F_SETFL, 0);  // programs expect reads and writes that wait
  const auto pid = spawn_shell(command, pair->second.get(), pair->second.get(), 2);
  if (!pid) return Failure(pid.error());
  reap_later(*pid);
  return std::move(pair->first);
}

Result<Descriptor> connect_tcp(const std::string& host, int port, SteadyPoint deadline, int wake) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int code = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (code != 0) {
    return fail(make_error(ErrorKind::connect, "cannot find the address of '" + host + "': " + gai_strerror(code))
                    .with_hint("check the spelling, or set ansible_host to an address"));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, freeaddrinfo);
  const std::string where = host + " port " + std::to_string(port);
  std::string reason;
  for (const addrinfo* address = found; address != nullptr; address = address->ai_next) {
    auto socket = connect_address(*address, deadline, wake, reason);
    if (socket) return socket;
    if (socket.error().kind == ErrorKind::timeout) {
      return fail(make_error(ErrorKind::timeout, "no answer from " + where + " in time")
                      .with_hint("is the machine up, and does a firewall drop the packets?"));
    }
    if (socket.error().kind == ErrorKind::interrupted) return socket;
  }
  return fail(make_error(ErrorKind::connect, "cannot connect to " + where + ": " + reason)
                  .with_hint("is the machine up, and is something listening on that port?"));
}

std::shared_ptr<ProgramSource> make_local_source() { return std::make_shared<LocalSource>(); }

}  // namespace millwright
