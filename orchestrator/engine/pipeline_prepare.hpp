// What the actions of a pipeline need, put down on the node before the first of them begins, in one script: one folder
// call, one check of what arrived, one flush for all of them instead of several for each.
//
// Pure text; nothing here touches a node. Beside the gate it leaves there
//   <gate>.clock   what time it was, for the lines in the audit log (script_audit)
//   <gate>.boot    the boot id. The mark "started" of an action that has nothing to save is not flushed before it runs;
//                  when the node boots before the pipeline's end has flushed all marks, an action of it without a mark
//                  counts as started (settle_mark_script), which at worst undoes what was not done
#pragma once

#include <string>
#include <vector>

#include "orchestrator/engine/action_script.hpp"

namespace millwright {

// Exits with cannot_create, or with locked_status after printing "locked <holder>"; the gate is not made then, so
// nothing begins.
std::string prepare_script(const std::string& gate_file, const std::vector<const ActionScript*>& actions);

// Behind all of them: flushes marks and renames to the disk, and removes what belongs to the gate.
std::string finish_script(const std::string& gate_file, const std::vector<const ActionScript*>& actions);

// Sets what script_audit counts on from; needs G, which gate_text sets.
std::string read_clock();

}  // namespace millwright
