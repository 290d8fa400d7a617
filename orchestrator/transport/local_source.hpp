// Programs of this machine.
#pragma once

#include <memory>

#include "orchestrator/transport/program.hpp"

namespace millwright {

// Starts `/bin/sh -c command` in a session of its own. Safe for concurrent use.
std::shared_ptr<ProgramSource> make_local_source();

// The same without a source.
Result<std::unique_ptr<Program>> start_local(const std::string& command);

// A program whose standard input and output are one socket, whose other end is returned; its errors go to ours.
Result<Descriptor> start_joined(const std::string& command);

// A TCP connection from this machine, non-blocking; `wake` (or -1) becoming readable ends the wait as `interrupted`.
// Connect errors name host, port and address.
Result<Descriptor> connect_tcp(const std::string& host, int port, SteadyPoint deadline, int wake);

}  // namespace millwright
