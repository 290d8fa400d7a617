#include "orchestrator/engine/engine.hpp"

#include <ctime>
#include <random>

#include "orchestrator/engine/engine_parts.hpp"
#include "orchestrator/engine/play.hpp"
#include "orchestrator/engine/run_locks.hpp"
#include "orchestrator/engine/run_summary.hpp"
#include "orchestrator/engine/secrets.hpp"
#include "orchestrator/engine/selection.hpp"
#include "orchestrator/journal/process_identity.hpp"

namespace millwright {

std::string new_run_id(const Clock& clock) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(clock.now());
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  char stamp[32];
  const std::size_t size = std::strftime(stamp, sizeof stamp, "%Y%m%d-%H%M-", &parts);
  constexpr std::string_view letters = "abcdefghijklmnopqrstuvwxyz0123456789";
  std::random_device random;
  std::uniform_int_distribution<std::size_t> pick(0, letters.size() - 1);
  std::string id(stamp, size);
  for (int i = 0; i < 3; ++i) id += letters[pick(random)];
  return id;
}

std::string holder_of(const std::string& run) { return describe_this_process() + " run " + run; }

void say_started(RunContext& run, const std::string& verb, const std::vector<PlayHost>& hosts) {
  Value names = Value::array();
  for (const PlayHost& host : hosts) names.push_back(host.target.name);
  Value steps = Value::array();
  for (const StepDecl& step : run.playbook.steps) {
    Value needs = Value::array();
    for (const NeedDecl& need : step.needs) needs.push_back(need.step);
    steps.push_back(
        {{"id", step.id}, {"name", step.name}, {"uses", step.uses}, {"needs", std::move(needs)}, {"in", step.in}});
  }
  run.recorder.emit(EventType::run_started, "", "",
                    {{"playbook", run.playbook.name.empty() ? run.playbook.path : run.playbook.name},
                     {"hosts", std::move(names)},
                     {"steps", std::move(steps)},
                     {"verb", verb},
                     {"inventory", run.options.inventory},
                     {"inputs", without_secret_inputs(run.playbook, run.inputs)}});
}

Engine::Engine(EngineServices services, const InterruptLevel& interrupt) : services_(services), interrupt_(interrupt) {}

std::string_view verb_of(const RunOptions& options) {
  if (options.mode == Mode::apply) return "apply";
  return options.asking == Asking::plan ? "plan" : options.asking == Asking::drift ? "drift" : "verify";
}

Result<std::string> new_run(const EngineServices& services, const Playbook& playbook, const std::string& text,
                            const std::string& verb, const RunParameters& parameters) {
  RunRecord record;
  record.verb = verb;
  record.playbook_path = playbook.path;
  record.playbook_text = text;
  record.parameters = parameters_value(parameters);
  record.parameters["files"] = playbook.files;
  Result<void> begun;
  // Two runs of one minute may draw the same three letters.
  constexpr int draws = 5;
  for (int i = 0; i < draws; ++i) {
    record.id = new_run_id(*services.clock);
    record.started = services.clock->now();
    begun = services.journal->begin_run(record);
    if (begun) return record.id;
  }
  return fail(begun.error());
}

Result<RunSummary> Engine::run(const Playbook& playbook, const std::string& playbook_text, const Value& inputs,
                               const std::vector<PlayHost>& hosts, const RunOptions& options) {
  hide_secret_inputs(playbook, inputs);
  const StepOrder order(playbook);
  Result<std::set<std::size_t>> out = left_out(playbook, order, options);
  if (!out) return fail(out.error());
  const bool planning = options.mode == Mode::plan;
  RunLocks locks(services_, describe_this_process());
  if (!planning) {
    if (Result<void> taken = locks.take(hosts, options, interrupt_); !taken) return fail(taken.error());
  }
  const std::string verb(verb_of(options));
  const Result<std::string> id =
      new_run(services_, playbook, playbook_text, verb, {without_secret_inputs(playbook, inputs), hosts, options});
  if (!id) return fail(id.error());
  RunContext run(services_, interrupt_, playbook, inputs, options, *id);
  run.holder = holder_of(*id);
  run.left_out = std::move(*out);
  const SteadyPoint start = services_.clock->steady();
  say_started(run, verb, hosts);
  RunSummary summary = summarize_run(run, play(run, hosts));
  finish(run, summary, start);
  return summary;
}

}  // namespace millwright
