// What happened, written ahead, so that kill -9 at any instant loses nothing: runs, events, step states, registered
// outputs, undo records, locks, evidence. Real: SqliteJournal under $XDG_STATE_HOME/millwright. Tests: MemoryJournal.
//
// Safe for concurrent use from several threads. Errors are io (disk) or busy (somebody else's lock).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "orchestrator/base/clock.hpp"
#include "orchestrator/base/error.hpp"
#include "orchestrator/base/event.hpp"
#include "orchestrator/base/value.hpp"
#include "orchestrator/journal/process_identity.hpp"

namespace millwright {

struct RunRecord {
  std::string id;    // "20261130-1412-k3f": UTC start and three random letters or digits
  std::string verb;  // apply | rollback | resume ...
  std::string playbook_path;
  std::string playbook_text;  // as it was applied: resume uses this, not the file of today
  Value parameters;           // inventory hosts with their variables, -e, limit, tags, options: enough to resume
  TimePoint started;
  std::optional<TimePoint> finished;
  std::optional<int> exit_code;
  std::string sentence;  // the last line of the report
};

enum class UndoState { pending, done, undone, refused, failed };  // pending: action started, end unknown
std::string_view to_string(UndoState state);

struct UndoRecord {
  std::uint64_t seq = 0;  // order of starting within the run, over all hosts
  std::string host;       // node name as in events
  Value node;             // how to reach it again: {"host": "gpu1", "container": {"backend": "lxc", "id": "llm"}}
  std::string step;
  std::string title;  // of the action
  std::string undo_title;
  std::string script;      // empty: irreversible
  std::string remote_dir;  // on the node: /var/lib/millwright/runs/<run>/<seq>-<step>; add_undo fills in "{seq}"
  UndoState state = UndoState::pending;
  std::uint64_t completed = 0;  // order of completion; 0 while pending. Rollback goes through this backwards.
};

// One (step, host) of a run, as far as it got.
struct StepRecord {
  std::string host;
  std::string step;
  std::string state;  // running | ok | changed | failed | skipped | unreachable | cancelled
  Value inputs;       // as rendered, secrets redacted
  Value outputs;      // registered values
};

struct LockRecord {
  std::string name;    // "node:gpu1", "state"
  std::string holder;  // "user@host pid 1234 run 2026..."
  std::string why;
  TimePoint since;
  bool by_hand = false;                  // a person's, not a process's: nobody takes it over
  Liveness process = Liveness::unknown;  // as `locks` finds it: of the process that took the lock
};

struct EvidenceRecord {
  std::string run, host, step, name, path;
  std::uint64_t bytes = 0;
};

class Journal {
 public:
  virtual ~Journal() = default;

  virtual Result<void> begin_run(const RunRecord& run) = 0;
  virtual Result<void> finish_run(const std::string& run, int exit_code, const std::string& sentence,
                                  TimePoint when) = 0;
  virtual Result<std::optional<RunRecord>> find_run(const std::string& id_or_prefix_or_last) = 0;
  virtual Result<std::vector<RunRecord>> runs(std::size_t newest) = 0;

  // On disk soon (sqlite_journal.hpp says when). Sets and returns the event's seq.
  virtual Result<std::uint64_t> append(const Event& event) = 0;
  virtual Result<std::vector<Event>> events(const std::string& run) = 0;

  virtual Result<void> put_step(const std::string& run, const StepRecord& step) = 0;
  virtual Result<std::vector<StepRecord>> steps(const std::string& run) = 0;

  // Durable before it returns: called before the action starts. Sets and returns seq.
  virtual Result<std::uint64_t> add_undo(const std::string& run, const UndoRecord& undo) = 0;
  // The same for several at once, in one transaction: all or none. Their seqs follow each other in the order given.
  virtual Result<std::vector<std::uint64_t>> add_undos(const std::string& run,
                                                       const std::vector<UndoRecord>& undos) = 0;
  virtual Result<void> set_undo_state(const std::string& run, std::uint64_t seq, UndoState state) = 0;
  virtual Result<std::vector<UndoRecord>> undos(const std::string& run) = 0;  // in order of seq

  // A lock whose holder is a dead process of this machine is taken over. Otherwise busy, with the holder in the
  // message.
  virtual Result<void> lock(const LockRecord& lock) = 0;
  virtual Result<void> unlock(const std::string& name, const std::string& holder) = 0;
  virtual Result<std::vector<LockRecord>> locks() = 0;

  // Bytes to a file beside the database, mode 0600; returns where.
  virtual Result<EvidenceRecord> keep(const std::string& run, const std::string& host, const std::string& step,
                                      const std::string& name, std::string_view bytes) = 0;
  virtual Result<std::vector<EvidenceRecord>> evidence(const std::string& run) = 0;
};

}  // namespace millwright
