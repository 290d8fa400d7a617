// The systemd unit of a server and the small programs that it runs beside the engine. Pure.
#pragma once

#include <string>

#include "steps/server/server_spec.hpp"

namespace millwright {

// Files of a release, run by the unit through the link `current`.
inline constexpr const char* kAwaitGpus = "await-gpus";
inline constexpr const char* kEnded = "ended";

std::string unit_text(const ServerSpec& spec);
// Waits for NVIDIA's device nodes, a minute at most: they come with the driver's module, which may load later at boot.
std::string await_gpus_text();
// Run when the server has ended, while its cgroup can still be asked: a line in the journal when the kernel has killed
// a part of it for memory ("millwright: memory: kills=N limit=N").
std::string ended_text();

// Shell functions: `server_pids` prints the processes of the server's user; `await_gone` waits until there are none,
// kills what is left after a while, and fails after half a minute with their names; `stop_server UNIT` stops the unit,
// waits for both that and the GPU driver to have given back the memory of its processes, where nvidia-smi names them.
std::string process_functions(const ServerSpec& spec);
// Shell that prints who listens on the server's port, if it is not the server itself: "pid 77 (python3, ssh.service)".
std::string port_holder_script(const ServerSpec& spec);

}  // namespace millwright
