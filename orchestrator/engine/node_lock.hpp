// The lock on the node itself: a symbolic link (made atomically) whose target says which run holds it, who, since when
// and why. It is taken right before the first action, in the same round trip; reading needs no lock.
#pragma once

#include <string>

#include "orchestrator/engine/node_session.hpp"

namespace millwright {

// What stands in the link behind "<run>|".
std::string node_lock_text(const RunContext& run);

// The error for a lock that somebody else holds: busy, with who, since when, why.
Error node_lock_error(const std::string& node, const std::string& held);

// True when the holder was a process of this machine that is dead now: its lock may be taken over.
bool holder_is_dead(const std::string& held);

// Removes the lock if it still reads `held`.
Result<void> break_node_lock(NodeSession& node, const std::string& state_dir, Become become, const std::string& held);

}  // namespace millwright
