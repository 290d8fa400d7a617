// One action as one POSIX sh script: guard, undo put down, save, mark started, place files, run, mark the end.
//
// Pure text; nothing here touches a node. What it leaves in the action's folder on the node (`remote_dir`, root only):
//   undo.sh, meta.json   before anything is touched; meta.json ends with a newline, else it was not written whole
//   save/                what undo needs
//   outcome              "stale" | "locked <holder>" | "unprepared <status> <what>" | "started" | "done 0" |
//                        "failed <status>" | "undone" | "undone_by_timer" | "timer_failed <status>"; the last line
//                        that ends with a newline counts
//   claim                made by the first who comes: the action, or a controller that settles that it never started
//   pid                  of the shell that runs the action, to tell a running action from one that was killed
//   audit                what the lines about it in the node's audit log have in common
#pragma once

#include <string>
#include <vector>

#include "orchestrator/base/clock.hpp"
#include "orchestrator/base/value.hpp"
#include "orchestrator/engine/pipeline_script.hpp"
#include "steps/contract/change.hpp"

namespace millwright {

// Small enough to travel inside the script, or on the node already under remote_dir/files/<index>: uploaded there, or
// put down by the script that prepares a pipeline, with its mode.
enum class Delivery { inside, uploaded, put_down };

struct PlacedFile {
  const FilePlacement* file = nullptr;
  Delivery delivery = Delivery::inside;
};

struct ActionScript {
  std::string state_dir;   // on the node
  std::string run;         // id
  std::string holder;      // of the node's lock: who is running
  std::string remote_dir;  // of this action
  std::string meta;        // JSON text
  std::string by;          // for the audit log: user@host of the controller
  Value audit;             // for the audit log: run, step, action, undo; without secrets
  const Action* action = nullptr;
  std::vector<PlacedFile> files;
  // Asked again first; empty: not guarded.
  std::vector<Question> guard;
  Answers planned_on;        // what they said
  Gate gate;                 // of a pipeline, whose script has put the action down already (pipeline_prepare.hpp)
  Milliseconds dead_man{0};  // not 0: a timer undoes the action after so long unless it is disarmed
};

std::string compose_action(const ActionScript& parts);

// Asks these and goes on when each answers as it did (exit status and output); else `otherwise`, which must exit. Uses
// the file $mw_guard, which it removes.
std::string guard_script(const std::vector<Question>& guard, const Answers& planned_on, const std::string& otherwise);

// True for content that can stand in a script: at most 64 KiB.
bool fits_inside(const std::string& content);

// What the node says about an action.
struct ActionMark {
  enum class Kind {
    absent,
    stale,
    locked,
    unprepared,
    started,
    done,
    failed,
    undone_by_timer,
    timer_failed,  // the node tried to take it back by itself, and could not
    undone
  } kind = Kind::absent;
  int status = 0;           // failed, unprepared: exit status
  std::string text;         // locked: the holder; unprepared: what failed
  bool running = false;     // its shell still lives, whatever it has come to
  bool unsure = false;      // begun this instant: it has not yet said which process it is
  bool going_down = false;  // killed, and the node is being switched off
  std::string boot;         // boot id of the node when it was read
  std::string boot_at_start;
};
// A script that prints the mark; exits 0 also when there is none.
std::string read_mark_script(const std::string& remote_dir);
// The same, and an action that has not begun yet never will: it may still be on its way when its controller was killed
// or the line broke. Its mark is "undone" then. From one that has ended, the dead-man timer is taken away: only to be
// sent over a connection made after it.
std::string settle_mark_script(const std::string& remote_dir);
ActionMark parse_mark(const std::string& out);
// It was begun, and nothing has taken it back: whether it got to its end or not, an undo has work to do.
bool action_ran(const ActionMark& mark);

// Runs the undo and marks it; exits with undo's status. `fallback` is the undo text of the journal, written down first
// when the node lost its own. `by` is who does it, for the audit log.
// With Force::yes it overwrites also what someone else changed since.
enum class Force { no, yes };
std::string compose_undo(const std::string& remote_dir, const std::string& fallback, const std::string& by,
                         Force force = Force::no);
// An undo may leave $MW_SAVE/after.sh for when the steps before its own have been taken back as well (a service is
// restarted with the configuration that is back by then). Runs those of all these folders in order, each once; exits
// with 1 when one failed, after trying them all.
std::string compose_after(const std::vector<std::string>& remote_dirs);

// Gives the node's lock back when `run` holds it.
std::string release_lock_script(const std::string& state_dir, const std::string& run);

}  // namespace millwright
