// rollback_from_node: a run of which only the node knows.
#include <fmt/format.h>

#include <algorithm>

#include "orchestrator/base/shell.hpp"
#include "orchestrator/base/text.hpp"
#include "orchestrator/engine/engine.hpp"
#include "orchestrator/engine/engine_parts.hpp"
#include "orchestrator/engine/play.hpp"
#include "orchestrator/engine/run_locks.hpp"
#include "orchestrator/engine/run_summary.hpp"
#include "orchestrator/journal/process_identity.hpp"

namespace millwright {

namespace {

// Only ever run when the node's own undo.sh is missing.
constexpr const char* lost_undo = "echo 'the node has lost the undo of this action' >&2\nexit 66\n";

std::string list_script(const std::string& folder) {
  return "R=" + shell_quote(folder) +
         "\n[ -d \"$R\" ] || exit 3\n"
         "for d in \"$R\"/*/; do\n  [ -f \"$d/meta.json\" ] || continue\n"
         "  printf '%s\\n' \"${d%/}\"; cat \"$d/meta.json\"; echo\ndone\n";
}

// The folder and the JSON of each action, line by line.
Result<std::vector<UndoRecord>> records_from(const std::string& listing, const std::string& host, Become become) {
  std::vector<UndoRecord> records;
  const std::vector<std::string> lines = split_lines(listing);
  for (std::size_t i = 0; i + 1 < lines.size(); i += 2) {
    const Value meta = Value::parse(lines[i + 1], nullptr, false);
    if (!meta.is_object()) return fail(ErrorKind::io, lines[i] + "/meta.json is damaged");
    UndoRecord record;
    record.seq = meta.value("seq", std::uint64_t{0});
    record.host = host;
    record.node = {{"host", host}, {"become", become == Become::root}};
    record.step = meta.value("step", std::string());
    record.title = meta.value("title", std::string());
    record.undo_title = meta.value("undo_title", std::string());
    record.remote_dir = lines[i];
    if (meta.value("reversible", false)) record.script = lost_undo;
    records.push_back(std::move(record));
  }
  return records;
}

Result<std::vector<UndoRecord>> read_node(HostSession& session, const std::string& id) {
  if (Result<void> up = session.connect(); !up) return fail(up.error());
  const Become become = session.host().target.become;
  AskBatch facts(session.base());
  facts.add_facts(become);
  if (Result<void> sent = facts.send(); !sent) return fail(sent.error());
  Command command;
  command.become = become;
  const std::string folder = session.state_dir(session.base(), become) + "/runs/" + id;
  command.script = list_script(folder);
  const Result<CommandResult> listed = session.base().connection->run(command);
  if (!listed) return fail(listed.error());
  if (listed->exit_code != 0) {
    return fail(
        make_error(ErrorKind::invalid, fmt::format("{} knows no run {}: there is no {}", session.name(), id, folder))
            .with_hint("ls " + session.state_dir(session.base(), become) + "/runs on the node shows what there is"));
  }
  return records_from(listed->out, session.name(), become);
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
    return read_node(session, id);
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
  std::sort(records->begin(), records->end(), [](const UndoRecord& a, const UndoRecord& b) { return a.seq < b.seq; });
  for (UndoRecord& undo : *records) {
    if (Result<std::uint64_t> added = services_.journal->add_undo(record.id, undo); !added) return fail(added.error());
  }
  RunSummary summary = summarize_run(run, roll_back_hosts(run, hosts, "asked for, from what the node knows of " + id));
  finish(run, summary, start, RolledBack::as_asked);
  return summary;
}

}  // namespace millwright
