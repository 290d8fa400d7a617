// The real connector: ssh (libssh), local, and hops into containers.
#pragma once

#include <memory>

#include "orchestrator/transport/connection.hpp"

namespace millwright {

// Its connections are safe for concurrent use (each call takes a shell of its own), and so are hops and their hosts;
// a hop keeps the session of its host alive by itself. The process ignores SIGPIPE from here on, and its limit of open
// files is raised as far as the system allows.
std::unique_ptr<Connector> make_connector(Clock& clock);

}  // namespace millwright
