#include "tests/unit/transport/test_sshd.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pwd.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <thread>

#include "orchestrator/base/text.hpp"

extern char** environ;

namespace millwright {
namespace {

int free_port() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  bind(fd, reinterpret_cast<sockaddr*>(&address), size);
  getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
  close(fd);
  return ntohs(address.sin_port);
}

bool answers(int port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  const bool open = connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  close(fd);
  return open;
}

std::vector<pid_t> children_of(pid_t parent) {
  std::vector<pid_t> children;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    std::ifstream file(entry.path() / "stat");
    std::string text;
    std::getline(file, text);
    const std::size_t end = text.rfind(')');
    if (end == std::string::npos) continue;
    std::istringstream words(text.substr(end + 1));
    std::string state;
    pid_t its_parent = 0;
    words >> state >> its_parent;
    if (its_parent == parent) children.push_back(std::stoi(entry.path().filename()));
  }
  return children;
}

}  // namespace

std::string sh(const std::string& command) {
  FILE* pipe = popen(command.c_str(), "r");
  std::string out;
  char buffer[4096];
  for (std::size_t n = 0; (n = fread(buffer, 1, sizeof buffer, pipe)) > 0;) out.append(buffer, n);
  if (pclose(pipe) != 0) throw std::runtime_error("failed: " + command);
  return out;
}

TestFolder::TestFolder() {
  char name[] = "/tmp/mw-test-XXXXXX";
  root_ = mkdtemp(name);
}

TestFolder::~TestFolder() { std::filesystem::remove_all(root_); }

std::string TestFolder::write(const std::string& name, const std::string& text) const {
  std::ofstream(path(name)) << text;
  return path(name);
}

std::string TestSshd::user() { return getpwuid(geteuid())->pw_name; }

TestSshd::TestSshd(const std::vector<std::string>& options) : port_(free_port()) {
  sh("ssh-keygen -q -t ed25519 -N '' -f " + folder_.path("host_key"));
  sh("ssh-keygen -q -t ed25519 -N '' -f " + key_file());
  sh("cp " + key_file() + ".pub " + folder_.path("authorized_keys"));
  std::string config = join(options, "\n") + "\nListenAddress 127.0.0.1\nPort " + std::to_string(port_) + "\nHostKey " +
                       folder_.path("host_key") + "\nAuthorizedKeysFile " + folder_.path("authorized_keys") +
                       "\nStrictModes no\nUsePAM no\nPermitRootLogin yes\nPidFile none\nPasswordAuthentication no\n"
                       "KbdInteractiveAuthentication no\nMaxStartups 200\nLogLevel VERBOSE\n";
  folder_.write("sshd_config", config);
  folder_.write("known_hosts", "[127.0.0.1]:" + std::to_string(port_) + " " + host_key() + "\n");
  start();
}

TestSshd::~TestSshd() { stop(); }

void TestSshd::start() {
  if (geteuid() == 0) std::filesystem::create_directories("/run/sshd");
  std::string program = "/usr/sbin/sshd", foreground = "-D", log = "-E", log_file = folder_.path("log"), file = "-f",
              config = folder_.path("sshd_config");
  char* arguments[] = {program.data(), foreground.data(), log.data(), log_file.data(),
                       file.data(),    config.data(),     nullptr};
  if (posix_spawn(&pid_, program.c_str(), nullptr, nullptr, arguments, environ) != 0) {
    throw std::runtime_error("cannot start sshd");
  }
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!answers(port_)) {
    if (std::chrono::steady_clock::now() > end || waitpid(pid_, nullptr, WNOHANG) == pid_) {
      throw std::runtime_error("sshd does not answer: " + sh("cat " + log_file));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

void TestSshd::kill_sessions() const {
  for (const pid_t child : children_of(pid_)) {
    const std::vector<pid_t> grandchildren = children_of(child);
    kill(child, SIGKILL);
    for (const pid_t grandchild : grandchildren) kill(grandchild, SIGKILL);
  }
}

void TestSshd::stop() {
  if (pid_ == 0) return;
  kill_sessions();
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
  pid_ = 0;
}

std::string TestSshd::host_key() const {
  const std::string text = sh("cut -d' ' -f1,2 " + folder_.path("host_key.pub"));
  return std::string(trim(text));
}

Target TestSshd::target() const {
  Target target;
  target.name = "node";
  target.address = "127.0.0.1";
  target.port = port_;
  target.user = user();
  target.identity_file = key_file();
  target.ssh_config_file = "none";
  target.known_hosts_file = known_hosts();
  target.connect_timeout = std::chrono::seconds(10);
  target.ssh_args = {"-o", "IdentitiesOnly=yes", "-o", "GlobalKnownHostsFile=none"};
  return target;
}

}  // namespace millwright
