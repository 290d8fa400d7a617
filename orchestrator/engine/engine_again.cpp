// resume and rollback: runs that the journal knows.
#include <algorithm>

#include "orchestrator/engine/engine.hpp"
#include "orchestrator/engine/engine_parts.hpp"
#include "orchestrator/engine/play.hpp"
#include "orchestrator/engine/run_locks.hpp"
#include "orchestrator/engine/run_summary.hpp"
#include "orchestrator/engine/secrets.hpp"
#include "orchestrator/engine/selection.hpp"
#include "orchestrator/journal/process_identity.hpp"

namespace millwright {

Result<std::unique_ptr<KnownRun>> load_run(const EngineServices& services, const std::string& run,
                                           const RunOptions& options) {
  Result<std::optional<RunRecord>> record = services.journal->find_run(run);
  if (!record) return fail(record.error());
  if (!*record) {
    return fail(
        make_error(ErrorKind::invalid, "the journal knows no run " + run)
            .with_hint("millwright runs lists them; a run of another controller can be taken back from the node"));
  }
  auto known = std::make_unique<KnownRun>();
  known->record = std::move(**record);
  Result<RunParameters> parameters = parameters_of(known->record.parameters, options);
  if (!parameters) return fail(wrap(parameters.error(), "reading run " + known->record.id));
  known->parameters = std::move(*parameters);
  ParseOptions as_it_was;
  const Value files = known->record.parameters.value("files", Value::object());
  for (const auto& [path, text] : files.items())
    as_it_was.files[path] = text.is_string() ? text.get<std::string>() : "";
  tl::expected<Playbook, std::vector<Error>> playbook =
      parse_playbook(known->record.playbook_text, known->record.playbook_path, *services.registry, as_it_was);
  if (!playbook) return fail(wrap(playbook.error().front(), "reading the playbook of run " + known->record.id));
  known->playbook = std::move(*playbook);
  hide_secret_inputs(known->playbook, known->parameters.inputs);
  return known;
}

std::map<std::string, std::map<std::string, StepRecord>> records_of(const std::vector<StepRecord>& steps) {
  std::map<std::string, std::map<std::string, StepRecord>> out;
  for (const StepRecord& step : steps) out[step.host][step.step] = step;
  return out;
}

void restore_board(RunContext& run, const std::vector<PlayHost>& hosts) {
  for (const PlayHost& host : hosts) {
    run.board.add_host(host.target.name);
    const auto records = run.earlier.find(host.target.name);
    if (records == run.earlier.end()) continue;
    for (const auto& [id, record] : records->second) {
      const auto step = run.order.position(id);
      if (!step) continue;
      StepResult result;
      result.progress = progress_of(record.state).value_or(Progress::cancelled);
      result.inputs = record.inputs;
      result.outputs = record.outputs;
      result.outputs_known = result.progress == Progress::ok || result.progress == Progress::changed ||
                             result.progress == Progress::skipped || result.progress == Progress::failed;
      run.board.put(host.target.name, *step, std::move(result));
    }
  }
}

std::vector<HostEnd> roll_back_hosts(RunContext& run, const std::vector<PlayHost>& hosts, const std::string& reason) {
  std::vector<const PlayHost*> pointers;
  for (const PlayHost& host : hosts) pointers.push_back(&host);
  ForkLimit forks(run.options.forks);
  return for_each_host(run, pointers, [&](const PlayHost& host) {
    forks.enter();
    HostEnd end;
    end.summary.host = host.target.name;
    HostSession session(run, host);
    StepRunner runner(run, session);
    if (Result<void> up = session.connect(); !up) {
      end.first_error = up.error();
      end.summary.state = "unreachable";
    } else {
      const RollbackReport report = Rollback(run, session, runner).run(reason);
      end.remaining = report.remaining;
      end.summary.changed = report.undone;
      end.summary.state = report.complete() ? "rolled_back" : "rollback_incomplete";
    }
    session.say_what_nodes_did();
    session.release_locks();
    forks.leave();
    return end;
  });
}

Result<RunSummary> Engine::resume(const std::string& id, const RunOptions& options) {
  Result<std::unique_ptr<KnownRun>> known = load_run(services_, id, options);
  if (!known) return fail(known.error());
  const RunRecord& record = (*known)->record;
  const std::vector<PlayHost>& hosts = (*known)->parameters.hosts;
  if (Result<void> known_now = inputs_known((*known)->parameters.inputs); !known_now) return fail(known_now.error());
  RunOptions again = (*known)->parameters.options;
  again.mode = Mode::apply;
  again.lock_wait = options.lock_wait;
  again.why = options.why;
  again.inventory = options.inventory;
  RunLocks locks(services_, describe_this_process());
  if (Result<void> taken = locks.take(hosts, again, interrupt_); !taken) return fail(taken.error());
  const Result<std::vector<StepRecord>> steps = services_.journal->steps(record.id);
  if (!steps) return fail(steps.error());
  RunContext run(services_, interrupt_, (*known)->playbook, (*known)->parameters.inputs, again, record.id);
  run.holder = holder_of(record.id);
  run.earlier = records_of(*steps);
  Result<std::set<std::size_t>> out = left_out(run.playbook, run.order, again);
  if (!out) return fail(out.error());
  run.left_out = std::move(*out);
  // A host that the run had not come to yet has no records, but may have a pending action.
  for (const PlayHost& host : hosts) run.earlier[host.target.name];
  const SteadyPoint start = services_.clock->steady();
  say_started(run, "resume", hosts);
  RunSummary summary = summarize_run(run, play(run, hosts));
  finish(run, summary, start);
  return summary;
}

Result<RunSummary> Engine::look_again(const std::string& id, const RunOptions& options) {
  Result<std::unique_ptr<KnownRun>> known = load_run(services_, id, options);
  if (!known) return fail(known.error());
  RunParameters& parameters = (*known)->parameters;
  if (Result<void> known_now = inputs_known(parameters.inputs); !known_now) return fail(known_now.error());
  RunOptions again = parameters.options;
  again.mode = Mode::plan;
  again.asking = options.asking;
  const Result<std::vector<StepRecord>> steps = services_.journal->steps((*known)->record.id);
  if (!steps) return fail(steps.error());
  const std::string verb(verb_of(again));
  const Result<std::string> own = new_run(services_, (*known)->playbook, (*known)->record.playbook_text, verb,
                                          {parameters.inputs, parameters.hosts, again});
  if (!own) return fail(own.error());
  RunContext run(services_, interrupt_, (*known)->playbook, parameters.inputs, again, *own);
  run.holder = holder_of(*own);
  run.earlier = records_of(*steps);
  run.looked_at = (*known)->record.id;
  Result<std::set<std::size_t>> out = left_out(run.playbook, run.order, again);
  if (!out) return fail(out.error());
  run.left_out = std::move(*out);
  const SteadyPoint start = services_.clock->steady();
  say_started(run, verb, parameters.hosts);
  RunSummary summary = summarize_run(run, play(run, parameters.hosts));
  finish(run, summary, start);
  return summary;
}

namespace {

// What a run came to, where that is worth keeping beside "rolled back".
std::string failure_of(const RunRecord& record) {
  if (!record.exit_code) return {};
  const auto code = static_cast<ExitCode>(*record.exit_code);
  const bool no_failure =
      code == ExitCode::done || code == ExitCode::rolled_back || code == ExitCode::rollback_incomplete;
  return no_failure ? std::string() : record.sentence;
}

}  // namespace

Result<RunSummary> Engine::rollback(const std::string& id, const std::vector<std::string>& wanted,
                                    const RunOptions& options) {
  Result<std::unique_ptr<KnownRun>> known = load_run(services_, id, options);
  if (!known) return fail(known.error());
  std::vector<PlayHost> hosts;
  for (const PlayHost& host : (*known)->parameters.hosts) {
    const bool chosen = wanted.empty() || std::find(wanted.begin(), wanted.end(), host.target.name) != wanted.end();
    if (chosen) hosts.push_back(host);
  }
  for (const std::string& name : wanted) {
    const auto same = [&](const PlayHost& host) { return host.target.name == name; };
    if (std::none_of(hosts.begin(), hosts.end(), same)) {
      return fail(ErrorKind::invalid, "run " + (*known)->record.id + " had no host " + name);
    }
  }
  RunOptions again = (*known)->parameters.options;
  again.mode = Mode::apply;
  again.lock_wait = options.lock_wait;
  again.why = options.why;
  again.inventory = options.inventory;
  again.force_undo = options.force_undo;
  RunLocks locks(services_, describe_this_process());
  if (Result<void> taken = locks.take(hosts, again, interrupt_); !taken) return fail(taken.error());
  const Result<std::vector<StepRecord>> steps = services_.journal->steps((*known)->record.id);
  if (!steps) return fail(steps.error());
  RunContext run(services_, interrupt_, (*known)->playbook, (*known)->parameters.inputs, again, (*known)->record.id);
  run.holder = holder_of(run.run());
  run.earlier = records_of(*steps);
  run.ended_before = failure_of((*known)->record);
  restore_board(run, hosts);
  const SteadyPoint start = services_.clock->steady();
  say_started(run, "rollback", hosts);
  RunSummary summary = summarize_run(run, roll_back_hosts(run, hosts, "asked for"));
  finish(run, summary, start, RolledBack::as_asked);
  return summary;
}

}  // namespace millwright
