// Who a process is, so that a lock left by a dead one is told from a lock that somebody holds.
#pragma once

#include <string>

namespace millwright {

// A pid alone is reused; together with the start time, the boot and the pid namespace it is not.
struct ProcessIdentity {
  std::string machine;        // host name
  std::string boot;           // /proc/sys/kernel/random/boot_id
  std::string pid_namespace;  // target of /proc/self/ns/pid
  long pid = 0;
  std::string start;  // field 22 of /proc/PID/stat: clock ticks since boot
};

ProcessIdentity this_process();

enum class Liveness { alive, dead, unknown };
// unknown: it lives, or lived, where this process cannot look (another machine or pid namespace).
Liveness liveness(const ProcessIdentity& process);

// "user@machine pid 1234": for people.
std::string describe_this_process();

}  // namespace millwright
