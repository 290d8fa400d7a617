// Questions, answers, actions and changes: the data that the engine moves between a step kind and a node.
//
// Plain values without behaviour that touches a node; a step kind's ask and plan are pure functions over them.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "orchestrator/base/clock.hpp"
#include "orchestrator/base/error.hpp"
#include "orchestrator/base/value.hpp"

namespace millwright {

// What the questions of many steps have in common. `script` runs once, before the first of them, with the `word` of
// each as "$@", and what it prints is in the shell variable `variable` when they run. Where nobody has asked it for
// them (one question alone, a guard) that variable is not set, and a question finds out by itself; so it does for a
// word that the output does not mention.
struct SharedLook {
  std::string variable;
  std::string script;
  std::string word;
};

// A POSIX sh snippet that only reads. It runs with LC_ALL=C, an otherwise empty environment with PATH set, standard
// input from /dev/null, and the step's privileges. Output beyond 4 MiB is cut.
struct Question {
  std::string key;  // unique within the step
  std::string script;
  Milliseconds deadline = std::chrono::seconds(30);
  std::optional<SharedLook> shared = std::nullopt;
};

struct Answer {
  int exit_code = 0;
  std::string out;
  std::string err;

  bool ok() const { return exit_code == 0; }
};

class Answers {
 public:
  void set(std::string key, Answer answer);
  bool has(std::string_view key) const;
  const Answer& at(std::string_view key) const;  // throws std::logic_error: the step did not ask this
  std::string text(std::string_view key) const;  // out without trailing newlines
  const std::map<std::string, Answer, std::less<>>& all() const { return answers_; }

 private:
  std::map<std::string, Answer, std::less<>> answers_;
};

// A file that the engine puts in place before the action's script: written to a temporary name in the same folder,
// hash-checked, fsynced, mode and owner set, renamed. Parent folders must exist or be made by an earlier action.
struct FilePlacement {
  std::string path;                            // absolute, on the node
  std::shared_ptr<const std::string> content;  // either this,
  std::string local_path;                      // or a file of the controller, streamed
  std::string mode = "0644";
  std::string owner;  // empty: as the step's user
  std::string group;
};

struct Marks {
  bool destructive = false;          // nothing else may run on this node meanwhile
  bool may_drop_connection = false;  // the dead-man timer is armed with the undo before it runs
  bool needs_reboot = false;         // takes effect at the next boot
  bool refreshes = false;            // has the node take notice of what other steps placed; no state of its own
  bool guard_self = false;           // the script checks its own preconditions; the engine need not ask again first
};

// One unit of change. Script contract, on the node:
//  * `save` runs first, with $MW_SAVE naming an existing folder that only root can read and that lives as long as the
//    run's undo records; it keeps there what `undo` will need (the old file). It only reads elsewhere.
//  * then `files` are placed, then `script` runs, by /bin/sh -eu, LC_ALL=C, stdin from /dev/null, as root when the step
//  becomes.
//  * `undo` gets the same $MW_SAVE. It must be idempotent, must work when `script` never ran or ran half, and must
//    refuse (exit kUndoRefused, with a sentence on stderr) when what it would restore was changed by someone else
//    since. With $MW_FORCE set (rollback --force-undo) it does so all the same, and keeps what it overwrites below
//    $MW_SAVE; what is in use by something else (a model by a server) it still refuses.
struct Action {
  std::string title;  // "install nginx 1.22.1-9", in the imperative
  std::string script;
  std::vector<FilePlacement> files;
  std::string save;
  std::string undo;        // empty: cannot be taken back; `plan` says so
  std::string undo_title;  // "remove nginx"
  Milliseconds deadline = std::chrono::minutes(10);
  Marks marks;
};
inline constexpr int kUndoRefused = 65;

enum class Verification {
  ask_again,    // the same questions must plan to nothing after the actions
  exit_status,  // nothing to ask (a command without a guard): zero is success, and it always runs
};

// What an answer will be once a change has been made: these texts in this order with anything in between. It decides
// nothing by itself: it only lets the actions of later steps begin on the node without waiting for the controller to
// look at the answers, which it does all the same. So it must hold only where `plan` finds nothing left to do.
struct Expectation {
  std::string key;                  // of a question, which must also exit with 0
  std::vector<std::string> pieces;  // {"file 644 ", " abc\n"}; {"x\n"}: exactly this
};

// What planning found to do. No actions: already so.
struct Change {
  std::vector<Action> actions;
  std::string summary;              // "2 GPUs vfio-pci -> nvidia"; for no actions: "535.261.03, as wanted"
  std::string diff;                 // unified diff or "- old" / "+ new" lines; may be empty
  Value outputs = Value::object();  // known when there is nothing (left) to do
  Verification verification = Verification::ask_again;

  bool empty() const { return actions.empty(); }
};

// What one action printed and how it ended; what `StepKind::outputs` may read.
struct ActionResult {
  std::string title;
  Answer answer;
  Milliseconds elapsed{0};
};

}  // namespace millwright
