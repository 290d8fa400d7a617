// Shell that the scripts of an action share. Pure text; a script sets D (the action's folder) before it.
#pragma once

#include <string>

namespace millwright {

// mw_sync FILE..., mw_mark TEXT (the outcome in $D), mw_boot, mw_start_of PID, mw_alive FILE (with "pid start boot").
std::string script_helpers();

// mw_audit OUTCOME: one line of JSON in the node's audit log, written by the node itself: it is there even if the
// controller dies. `by` is who does it. Needs script_helpers.
std::string script_audit(const std::string& by);

// Writes `text` to a path given as shell text inside double quotes, by a temporary name. Its status is the script's.
std::string script_put(const std::string& path_expression, const std::string& text);

}  // namespace millwright
