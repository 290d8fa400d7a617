// A listener on 127.0.0.1 whose connections are each carried by a stream of their own.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "orchestrator/transport/connection.hpp"
#include "orchestrator/transport/program.hpp"

namespace millwright {

// Opens the far side of one connection; called on the tunnel's thread, must come back by the deadline.
using Dial = std::function<Result<std::unique_ptr<Program>>(SteadyPoint deadline, const Wakeup& wake)>;

// Owns one thread, which ends with the tunnel. A connection whose far side cannot be opened is closed (the client sees
// a reset). Bytes go on as they come, in both directions, with at most 256 KiB held per direction.
Result<std::unique_ptr<Tunnel>> make_relay_tunnel(Dial dial);

// A shell script that joins its standard input and output to host:port, with the first tool it finds: socat, ncat, nc,
// python3, perl, bash.
std::string relay_script(const std::string& host, int port);

}  // namespace millwright
