// rollback_from_node: a run of which only the node knows.
#include <set>

#include "orchestrator/engine/action_script.hpp"
#include "orchestrator/engine/engine.hpp"
#include "orchestrator/engine/engine_parts.hpp"
#include "orchestrator/engine/node_pointer.hpp"
#include "orchestrator/engine/play.hpp"
#include "orchestrator/engine/run_locks.hpp"
#include "orchestrator/engine/run_summary.hpp"
#include "orchestrator/journal/process_identity.hpp"

namespace millwright {

namespace {

// The run that did all this is over, whether its controller lives or not: what it had locked is free.
void release_locks_of(RunContext& run, const PlayHost& host, const std::string& id,
                      const std::vector<UndoRecord>& records) {
  HostSession session(run, host);
  std::set<std::string> done;
  for (const UndoRecord& record : records) {
    const std::size_t end = record.remote_dir.find("/runs/");
    if (end == std::string::npos || !done.insert(record.node.dump()).second) continue;
    Command command;
    command.become = record.node.value("become", false) ? Become::root : Become::no;
    command.script = release_lock_script(record.remote_dir.substr(0, end), id);
    Result<NodeSession*> node = session.node_at(record.node);
    if (!node) continue;  // a container that was taken away
    if (const Result<CommandResult> released = (*node)->connection->run(command); !released) {
      run.recorder.warn(record.host, "", "the lock on the node was not given back: " + released.error().message);
    }
  }
}

}  // namespace

Result<RunSummary> Engine::rollback_from_node(const PlayHost& host, const std::string& id, const RunOptions& options) {
  const std::vector<PlayHost> hosts = {host};
  RunLocks locks(services_, describe_this_process());
  if (Result<void> taken = locks.take(hosts, options, interrupt_); !taken) return fail(taken.error());
  Playbook nothing;
  nothing.name = "rollback of " + id + " from " + host.target.name;
  RunRecord record;
  record.id = new_run_id(*services_.clock);
  record.verb = "rollback";
  record.parameters = parameters_value({Value::object(), hosts, options});
  record.started = services_.clock->now();
  if (Result<void> begun = services_.journal->begin_run(record); !begun) return fail(begun.error());
  RunContext run(services_, interrupt_, nothing, Value::object(), options, record.id);
  run.holder = holder_of(record.id);
  run.board.add_host(host.target.name);
  const SteadyPoint start = services_.clock->steady();
  say_started(run, "rollback", hosts);
  Result<std::vector<UndoRecord>> records = [&] {
    HostSession session(run, host);
    return records_on_nodes(session, id);
  }();
  if (!records) {
    RunSummary summary;
    summary.run = run.run();
    const bool away = records.error().kind == ErrorKind::connect || records.error().kind == ErrorKind::timeout;
    summary.exit = away ? ExitCode::unreachable : ExitCode::usage;
    summary.sentence = records.error().message;
    finish(run, summary, start);
    return fail(records.error());
  }
  // This run's own journal takes the node's records, so that what becomes of each is kept as with any other run.
  for (UndoRecord& undo : *records) {
    if (Result<std::uint64_t> added = services_.journal->add_undo(record.id, undo); !added) return fail(added.error());
  }
  RunSummary summary = summarize_run(run, roll_back_hosts(run, hosts, "asked for, from what the node knows of " + id));
  release_locks_of(run, host, id, *records);
  finish(run, summary, start, RolledBack::as_asked);
  return summary;
}

}  // namespace millwright
