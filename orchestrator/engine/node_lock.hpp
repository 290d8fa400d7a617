// The lock on the node itself: a symbolic link (made atomically) whose target says which run holds it, who, since when
// and why. It is taken right before the first action, in the same round trip; reading needs no lock.
#pragma once

#include <string>

#include "orchestrator/engine/node_session.hpp"
#include "orchestrator/journal/process_identity.hpp"

namespace millwright {

// What stands in the link behind "<run>|".
std::string node_lock_text(const RunContext& run);

// What stands there instead of a run when a person holds the node.
inline constexpr const char* kByHand = "by-hand";

// Takes the node's lock for a person, or says who holds it: exit code 77 and what stands there. The node's user decides
// which state folder it is.
std::string take_by_hand_script(const std::string& holder, const std::string& since, const std::string& why);
// Prints what stands in the node's lock; nothing when it is free.
std::string read_lock_script();
// Removes the lock if it still reads `held`.
std::string free_lock_script(const std::string& held);

// The error for a lock that somebody else holds: busy, with who, since when, why.
Error node_lock_error(const std::string& node, const std::string& held);

// Whether the process that holds it still runs; unknown for another machine's, and for a person.
Liveness holder_liveness(const std::string& held);
// True when the holder was a process of this machine that is dead now: its lock may be taken over.
bool holder_is_dead(const std::string& held);

// Removes the lock if it still reads `held`.
Result<void> break_node_lock(NodeSession& node, const std::string& state_dir, Become become, const std::string& held);

}  // namespace millwright
