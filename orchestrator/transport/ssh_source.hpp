// Programs of a host that is reached by ssh, through jump hosts where its settings say so.
#pragma once

#include <memory>

#include "orchestrator/transport/program.hpp"
#include "orchestrator/transport/ssh_config.hpp"

namespace millwright {

// Logs in (and into the jump hosts before it). Errors as log_in's, with the jump host named in the chain. The source
// is safe for concurrent use; it keeps one session, which its own thread owns.
Result<std::shared_ptr<ProgramSource>> make_ssh_source(const Target& target);

// "user@address:port" as the settings resolve it.
Result<SshQuery> ssh_query(const Target& target);

}  // namespace millwright
