// Shell that the scripts of an action share. Pure text; a script sets D (the action's folder) before it.
//
// What the shell can do by itself it does: starting a program costs a node a millisecond, a subshell a third of that,
// and these run several times for each action. So they leave what they find in variables instead of printing it.
#pragma once

#include <string>

namespace millwright {

// mw_sync FILE...
// mw_mark TEXT       adds a line to the outcome in $D; the last whole line counts
// mw_outcome FOLDER  reads that into mw_last; empty: there is none
// mw_claim           this action's folder belongs to who calls it first; status 1 for all others
// mw_boot            id of this boot into mw_id; changes mw_start
// mw_start_of PID    when that process started into mw_start; 0: there is none
// mw_note_pid PID    writes "pid start boot" to $D/pid
// mw_alive FILE      whether the process of such a file still lives; its id in mw_pid
std::string script_helpers();

// mw_audit OUTCOME: one line of JSON in the node's audit log, written by the node itself: it is there even if the
// controller dies. `by` is who does it. Needs script_helpers. Within a minute the time is counted on from the first
// look at the clock, which costs a program.
std::string script_audit(const std::string& by);

// Sets `mw_pid` to the id of the shell (also of a subshell) it stands in.
std::string script_own_pid();

// Writes `text` to a path given as shell text inside double quotes, by a temporary name. Its status is the script's.
std::string script_put(const std::string& path_expression, const std::string& text);

}  // namespace millwright
