// The engine: schedules (step, host) pairs over the graph, asks, plans, acts, verifies, remedies, rolls back, resumes.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "inventory/inventory.hpp"
#include "orchestrator/base/clock.hpp"
#include "orchestrator/base/event.hpp"
#include "orchestrator/journal/journal.hpp"
#include "orchestrator/playbook/playbook.hpp"
#include "orchestrator/transport/connection.hpp"
#include "steps/contract/step.hpp"

namespace millwright {

class RemedyMemory;

// Exit codes of the program (docs/design.md, section 10).
enum class ExitCode : int {
  done = 0,
  usage = 1,
  failed = 2,
  rolled_back = 3,
  unreachable = 4,
  rollback_incomplete = 5,
  inconclusive = 6,
  lock_held = 7,
  stale = 8,
  interrupted = 130,
};

// All are borrowed and must outlive the engine; all are safe for concurrent use.
struct EngineServices {
  Connector* connector = nullptr;
  Journal* journal = nullptr;
  EventSink* sink = nullptr;
  Clock* clock = nullptr;
  HttpClient* http = nullptr;
  const StepRegistry* registry = nullptr;
  const RemedyAdvisor* remedies = nullptr;
  RemedyMemory* remembered = nullptr;  // what has cured which fault before; null: nothing is learned
};

// One host of the play with everything it needs; also what the journal keeps to resume.
struct PlayHost {
  Target target;
  Value vars = Value::object();  // merged by precedence, without -e
  std::vector<std::string> groups;
};

// Whether actions may travel together, each beginning on the node when the one before it ended well (on), or each waits
// for the controller to have looked at the one before it (off).
enum class Pipelining { on, off };

enum class Mode { apply, plan };  // plan: ask and plan only, change nothing

// What is asked for, when nothing is changed. plan: what apply would do. drift: what is not as the playbook says; what
// cannot be asked is no drift. verify: the same, and the steps that only look (tests) are run.
enum class Asking { plan, drift, verify };

struct PlannedUnit;

struct RunOptions {
  Mode mode = Mode::apply;
  Asking asking = Asking::plan;   // for Mode::plan
  int forks = 50;                 // hosts at once
  int steps_at_once = 4;          // on one host, at most
  std::vector<std::string> tags;  // only steps with one of these (and what provides their node); empty: all
  std::vector<std::string> skip_tags;
  std::string start_at;      // step id; earlier ones are taken as done (their outputs are asked)
  bool force_undo = false;   // of rollback: overwrite also what someone else changed since
  bool no_rollback = false;  // leave failures as they are
  Pipelining pipelining = Pipelining::on;
  Milliseconds lock_wait{0};
  std::string why;                     // shown to others who meet the lock
  std::vector<std::string> inventory;  // as the command line names it: shown where going back needs it again
  // A saved plan that is being done: nothing else than this is. Null: whatever is needed.
  std::shared_ptr<const std::vector<PlannedUnit>> approved;
  // Where actions keep undo and marks on a node. Empty: /var/lib/millwright as root, else ~/.local/state/millwright.
  std::string node_state_dir;
  // For resume and rollback: hosts and inputs as the inventory and the command line give them now. The journal keeps no
  // secrets; values that were redacted are taken from here.
  std::vector<PlayHost> refreshed_hosts;
  Value refreshed_inputs = Value::object();
};

struct HostSummary {
  std::string host;
  std::string state;  // ok | changed | failed | rolled_back | rollback_incomplete | unreachable | cancelled
  int ok = 0, changed = 0, failed = 0, skipped = 0, unknown = 0;
  int ignored = 0;  // failed, with ignore_failure
};

struct RunSummary {
  std::string run;
  ExitCode exit = ExitCode::done;
  std::string sentence;
  std::vector<HostSummary> hosts;
  std::vector<std::string> remaining;  // after an incomplete rollback: what is not as before
  std::string cured_by;
};

// Set from a signal handler (lock-free). 0: go on; 1: finish running actions, start no more; 2: stop now.
using InterruptLevel = std::atomic<int>;

class Engine {
 public:
  Engine(EngineServices services, const InterruptLevel& interrupt);
  // Errors are those that prevent a run from starting; what happens on nodes is in the summary and the events.
  Result<RunSummary> run(const Playbook& playbook, const std::string& playbook_text, const Value& inputs,
                         const std::vector<PlayHost>& hosts, const RunOptions& options);
  // Asks again what a run left, with the outputs that it had, and changes nothing: `options.asking` drift or verify.
  Result<RunSummary> look_again(const std::string& run, const RunOptions& options);
  // Goes on with a run that was killed or interrupted: registered values restored, finished steps asked again.
  Result<RunSummary> resume(const std::string& run, const RunOptions& options);
  // Takes a run back: completed actions in reverse order of completion. `hosts` empty: all of the run.
  Result<RunSummary> rollback(const std::string& run, const std::vector<std::string>& hosts, const RunOptions& options);
  // Takes back a run of which only the node knows (journal lost, or another controller's).
  Result<RunSummary> rollback_from_node(const PlayHost& host, const std::string& run, const RunOptions& options);

 private:
  EngineServices services_;
  const InterruptLevel& interrupt_;
};

}  // namespace millwright
