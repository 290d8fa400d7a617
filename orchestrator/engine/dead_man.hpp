// The dead-man timer: a systemd timer on the node that takes an action back unless the controller comes back first.
//
// It is a unit file and not a transient unit, so that it survives a reboot: the time then begins anew, with the boot.
// When its time is up the node
//   1. stops the action if it still runs, runs its undo, and marks it undone_by_timer (or timer_failed);
//   2. and if nobody has come back after the same time once more, takes back what the same run did on this node before
//      (the file that the restarted service reads), newest first, and runs what the undos left in save/after.sh.
// Either the node or the controller gets $D/timer.claim; who does not, leaves the action to the other.
// What was done is also said in <state folder>/by-itself/, for runs that know nothing of this one.
//
// Pure text; nothing here touches a node.
#pragma once

#include <string>

#include "orchestrator/base/clock.hpp"

namespace millwright {

struct DeadMan {
  std::string remote_dir;  // of the action
  std::string run;
  std::string title;
  Milliseconds after{0};
};

// A part of the action's script: writes timer.sh and the units and starts the timer; when that does not work, marks the
// action unprepared and exits with `failed_status`. Needs script_helpers, $D and $S.
std::string arm_dead_man(const DeadMan& timer, int failed_status);

// A part of a mark's script, once the action runs no more: takes the timer away, or, while the node is at work taking
// the action back, sets running=yes. Needs script_helpers and $D. Nothing when there is no timer.
std::string settle_dead_man(const std::string& remote_dir);

// Takes away the timers of a run that is known to be dead, by whoever takes over its lock: from then on somebody is
// there, and the node must not act by itself any more. Waits for one that is just at work.
std::string dismiss_dead_men_script(const std::string& run);

// A part of the facts' script: prints "by-itself FILE TEXT" for each thing that this node took back by itself and that
// no run has been told yet. Needs $S.
std::string told_by_node_script();
// Takes such a file away once it has been told.
std::string forget_told_script(const std::string& file);

}  // namespace millwright
