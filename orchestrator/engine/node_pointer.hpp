// Where on a host's nodes a run has records: a file in the run's folder on the host for each container (and each state
// folder but the host's own), so that a run can be taken back from what the host knows alone.
#pragma once

#include <string>
#include <vector>

#include "orchestrator/engine/node_session.hpp"

namespace millwright {

// Put down on the host before the first action there. Nothing to do for the host's own folder, or when it is there.
// Errors: the way to the host; refused when the host cannot keep it (nothing was changed).
Result<void> point_at(HostSession& host, NodeSession& node, Become become, const std::string& run);

// What the nodes of a host know of a run: by sequence number, which is an order in which they can be taken back from
// the end, since a step that needs another one begins after it. A container out of reach is one record that cannot be
// undone. invalid: the host knows no such run.
Result<std::vector<UndoRecord>> records_on_nodes(HostSession& host, const std::string& run);

}  // namespace millwright
