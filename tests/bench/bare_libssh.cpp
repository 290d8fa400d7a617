// The floor that millwright is measured against: the same work with nothing but libssh, written as well as it allows.
//
//   bare_libssh channels|shell|batch HOSTS KEY KNOWN_HOSTS COMMANDS   a channel each; one shell, waiting for each;
//                                                                     one shell, everything sent at once
//   bare_libssh put HOSTS KEY KNOWN_HOSTS FILE PATH                   FILE through `cat` into PATH
//
// HOSTS: "name address port" a line. COMMANDS: a shell command a line. All hosts at once, a thread and a session each.
// Prints nothing; exit status 1 and a sentence when anything failed on any host.
#include <libssh/libssh.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

struct Host {
  std::string name, address;
  int port = 22;
};

struct Work {
  std::string mode, known_hosts, file, path;
  ssh_key key = nullptr;
  std::vector<std::string> commands;
};

struct Freer {
  void operator()(ssh_session session) const {
    ssh_disconnect(session);
    ssh_free(session);
  }
  void operator()(ssh_channel channel) const { ssh_channel_free(channel); }
};
using Session = std::unique_ptr<ssh_session_struct, Freer>;
using Channel = std::unique_ptr<ssh_channel_struct, Freer>;

void need(bool good, ssh_session session, const char* what) {
  if (!good) throw std::runtime_error(std::string(what) + ": " + ssh_get_error(session));
}

// Without it the kernel holds acknowledgements back for 40 ms, and sshd waits for them (Nagle). It does not last.
void acknowledge_at_once(ssh_session session) {
  const int on = 1;
  setsockopt(ssh_get_fd(session), IPPROTO_TCP, TCP_QUICKACK, &on, sizeof on);
}

Session log_in(const Host& host, const Work& work) {
  Session session(ssh_new());
  const int on = 1;
  const int off = 0;
  const auto set = [&](ssh_options_e option, const void* value) {
    need(ssh_options_set(session.get(), option, value) == 0, session.get(), "setting an option");
  };
  set(SSH_OPTIONS_PROCESS_CONFIG, &off);
  set(SSH_OPTIONS_HOST, host.address.c_str());
  set(SSH_OPTIONS_PORT, &host.port);
  set(SSH_OPTIONS_USER, "root");
  set(SSH_OPTIONS_NODELAY, &on);
  set(SSH_OPTIONS_KNOWNHOSTS, work.known_hosts.c_str());
  set(SSH_OPTIONS_GLOBAL_KNOWNHOSTS, "/dev/null");
  set(SSH_OPTIONS_HOSTKEYS, "ssh-ed25519");
  set(SSH_OPTIONS_KEY_EXCHANGE, "curve25519-sha256");
  set(SSH_OPTIONS_CIPHERS_C_S, "aes128-gcm@openssh.com");
  set(SSH_OPTIONS_CIPHERS_S_C, "aes128-gcm@openssh.com");
  need(ssh_connect(session.get()) == SSH_OK, session.get(), "connecting");
  acknowledge_at_once(session.get());
  need(ssh_session_is_known_server(session.get()) == SSH_KNOWN_HOSTS_OK, session.get(), "checking the host key");
  need(ssh_userauth_publickey(session.get(), nullptr, work.key) == SSH_AUTH_SUCCESS, session.get(), "logging in");
  acknowledge_at_once(session.get());
  return session;
}

Channel start(ssh_session session, const std::string& command) {
  Channel channel(ssh_channel_new(session));
  need(ssh_channel_open_session(channel.get()) == SSH_OK, session, "opening a channel");
  need(ssh_channel_request_exec(channel.get(), command.c_str()) == SSH_OK, session, "starting a command");
  return channel;
}

void send(ssh_session session, ssh_channel channel, const std::string& text) {
  need(
      ssh_channel_write(channel, text.data(), static_cast<std::uint32_t>(text.size())) == static_cast<int>(text.size()),
      session, "sending");
}

// Reads to the end and wants exit status 0.
void finish(ssh_session session, ssh_channel channel) {
  std::array<char, 4096> buffer;
  while (true) {
    acknowledge_at_once(session);
    const int got = ssh_channel_read(channel, buffer.data(), buffer.size(), 0);
    need(got >= 0, session, "reading");
    if (got == 0) break;
  }
  need(ssh_channel_get_exit_status(channel) == 0, session, "a command failed");
}

void one_channel_each(ssh_session session, const Work& work) {
  for (const std::string& command : work.commands) finish(session, start(session, command).get());
}

// After each command the shell says "status" and a number.
void one_shell(ssh_session session, const Work& work) {
  const Channel channel = start(session, "exec /bin/sh");
  std::string all, said;
  const auto framed = [](const std::string& command) { return "( " + command + " ) </dev/null; echo status $?\n"; };
  std::size_t answers = 0;
  const auto read_until = [&](std::size_t wanted) {
    std::array<char, 4096> buffer;
    while (answers < wanted) {
      acknowledge_at_once(session);
      const int got = ssh_channel_read(channel.get(), buffer.data(), buffer.size(), 0);
      need(got > 0, session, "reading");
      said.append(buffer.data(), static_cast<std::size_t>(got));
      for (std::size_t end = said.find('\n'); end != std::string::npos; end = said.find('\n')) {
        if (said.compare(0, end, "status 0") != 0) throw std::runtime_error("a command failed: " + said);
        said.erase(0, end + 1);
        ++answers;
      }
    }
  };
  for (std::size_t i = 0; i < work.commands.size(); ++i) {
    if (work.mode == "batch") {
      all += framed(work.commands[i]);
    } else {
      send(session, channel.get(), framed(work.commands[i]));
      read_until(i + 1);
    }
  }
  if (!all.empty()) send(session, channel.get(), all);
  read_until(work.commands.size());
  ssh_channel_send_eof(channel.get());
}

void put(ssh_session session, const Work& work) {
  const Channel channel = start(session, "cat >'" + work.path + "'");
  std::ifstream file(work.file, std::ios::binary);
  std::string chunk(256 * 1024, '\0');
  while (file.read(chunk.data(), static_cast<std::streamsize>(chunk.size())) || file.gcount() > 0) {
    send(session, channel.get(), chunk.substr(0, static_cast<std::size_t>(file.gcount())));
  }
  ssh_channel_send_eof(channel.get());
  finish(session, channel.get());
}

void work_on(const Host& host, const Work& work) {
  const Session session = log_in(host, work);
  if (work.mode == "put") {
    put(session.get(), work);
  } else if (work.mode == "channels") {
    one_channel_each(session.get(), work);
  } else {
    one_shell(session.get(), work);
  }
}

std::vector<Host> read_hosts(const std::string& path) {
  std::ifstream in(path);
  std::vector<Host> hosts;
  for (Host host; in >> host.name >> host.address >> host.port;) hosts.push_back(host);
  if (hosts.empty()) throw std::runtime_error("no hosts in " + path);
  return hosts;
}

int run(const std::vector<std::string>& words) {
  const bool putting = words.size() == 6 && words[0] == "put";
  const bool commanding = words.size() == 5 && (words[0] == "channels" || words[0] == "shell" || words[0] == "batch");
  if (!putting && !commanding) throw std::runtime_error("usage: see the head of bare_libssh.cpp");
  Work work;
  work.mode = words[0];
  work.known_hosts = words[3];
  if (ssh_pki_import_privkey_file(words[2].c_str(), nullptr, nullptr, nullptr, &work.key) != SSH_OK) {
    throw std::runtime_error("cannot read the key " + words[2]);
  }
  if (putting) {
    work.file = words[4];
    work.path = words[5];
  } else {
    std::ifstream in(words[4]);
    for (std::string line; std::getline(in, line);) work.commands.push_back(line);
  }
  const std::vector<Host> hosts = read_hosts(words[1]);
  std::atomic<int> failed = 0;
  std::vector<std::thread> threads;
  for (const Host& host : hosts) {
    threads.emplace_back([&] {
      try {
        work_on(host, work);
      } catch (const std::exception& problem) {
        ++failed;
        std::ostringstream line;
        line << host.name << ": " << problem.what() << "\n";
        std::cerr << line.str();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  ssh_key_free(work.key);
  return failed == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(std::vector<std::string>(argv + 1, argv + argc));
  } catch (const std::exception& problem) {
    std::cerr << problem.what() << "\n";
    return 1;
  }
}
