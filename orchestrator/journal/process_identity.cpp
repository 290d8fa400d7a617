#include "orchestrator/journal/process_identity.hpp"

#include <pwd.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <sstream>
#include <vector>

namespace millwright {

namespace {

std::string first_line(const std::string& path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  return line;
}

std::string link_target(const char* path) {
  std::array<char, 256> buffer{};
  const ssize_t size = readlink(path, buffer.data(), buffer.size());
  return size <= 0 ? std::string() : std::string(buffer.data(), static_cast<std::size_t>(size));
}

// Empty when there is no such process. The command name in parentheses may hold blanks, so fields count from its end.
std::string start_of(long pid) {
  const std::string stat = first_line("/proc/" + std::to_string(pid) + "/stat");
  const std::size_t end = stat.rfind(')');
  if (end == std::string::npos) return {};
  std::istringstream fields(stat.substr(end + 1));
  std::string field;
  constexpr int state = 3, start = 22;
  std::string process_state;
  for (int i = state; i <= start && fields >> field; ++i) {
    if (i == state) process_state = field;
  }
  return process_state == "Z" || process_state == "X" ? std::string() : field;
}

std::string machine_name() {
  std::array<char, 256> buffer{};
  return gethostname(buffer.data(), buffer.size() - 1) == 0 ? std::string(buffer.data()) : std::string("unknown");
}

}  // namespace

ProcessIdentity this_process() {
  ProcessIdentity self;
  self.machine = machine_name();
  self.boot = first_line("/proc/sys/kernel/random/boot_id");
  self.pid_namespace = link_target("/proc/self/ns/pid");
  self.pid = getpid();
  self.start = start_of(self.pid);
  return self;
}

Liveness liveness(const ProcessIdentity& process) {
  const ProcessIdentity self = this_process();
  if (process.machine != self.machine) return Liveness::unknown;
  if (process.boot != self.boot) return Liveness::dead;
  if (process.pid_namespace != self.pid_namespace) return Liveness::unknown;
  const std::string start = start_of(process.pid);
  return !start.empty() && start == process.start ? Liveness::alive : Liveness::dead;
}

std::string describe_this_process() {
  std::vector<char> buffer(16384);
  passwd entry{};
  passwd* found = nullptr;
  getpwuid_r(geteuid(), &entry, buffer.data(), buffer.size(), &found);
  const std::string user = found != nullptr ? found->pw_name : std::to_string(geteuid());
  return user + "@" + machine_name() + " pid " + std::to_string(getpid());
}

}  // namespace millwright
