// What an earlier life of a run, which was killed, has left behind on a host: actions whose end nobody has seen.
#pragma once

#include "orchestrator/engine/node_session.hpp"

namespace millwright {

// Stops what the node was sent and has not begun, waits for what still runs, and writes down in the journal how each
// ended; units that had finished are added to RunContext::earlier. Nothing to do for a new run. From the host's worker,
// before its steps.
void settle_earlier_life(RunContext& run, HostSession& session);

}  // namespace millwright
