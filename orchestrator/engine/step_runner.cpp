#include "orchestrator/engine/step_runner.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace millwright {

void StepRunner::replace(std::size_t step, Value inputs) {
  if (inputs.is_null()) {
    replaced_.erase(step);
  } else {
    replaced_[step] = std::move(inputs);
  }
}

Value StepRunner::replaced(std::size_t step) const {
  const auto it = replaced_.find(step);
  return it == replaced_.end() ? Value() : it->second;
}

std::string StepRunner::node_name(const StepDecl& decl) const {
  return host_.node_name_for(decl).value_or(host_.name());
}

SteadyPoint StepRunner::deadline_of(const StepDecl& decl, Milliseconds otherwise) const {
  return run_.services.clock->steady() + decl.timeout.value_or(otherwise);
}

StepResult StepRunner::failed(Error error) const {
  StepResult result;
  result.progress = Progress::failed;
  const bool way = error.kind == ErrorKind::connect || error.kind == ErrorKind::auth ||
                   error.kind == ErrorKind::host_key || error.kind == ErrorKind::timeout;
  // A container or a server that does not answer is a failure of the step; only a lost host is unreachable. So is one
  // where the user who logs in may not become who does the work: nothing was done, and nothing can be.
  if ((way && !host_.reachable()) || error.kind == ErrorKind::auth) result.progress = Progress::unreachable;
  if (error.kind == ErrorKind::interrupted) result.progress = Progress::cancelled;
  result.summary = error.message;
  result.error = std::move(error);
  return result;
}

const StepRecord* StepRunner::finished_before(const Unit& unit) const {
  const auto host = run_.earlier.find(host_.name());
  if (host == run_.earlier.end()) return nullptr;
  // Of an item that had finished on the node although the step had not come to it here.
  const auto item_record = unit.index ? host->second.find(unit.key()) : host->second.end();
  if (item_record != host->second.end() && item_record->second.state == "changed") return &item_record->second;
  const auto record = host->second.find(unit.decl->id);
  if (record == host->second.end()) return nullptr;
  const StepRecord& found = record->second;
  if (found.state == "ok" || found.state == "changed") return &found;
  // A `foreach` that was cut off keeps the outputs of the items that had finished.
  const bool item = unit.index && found.outputs.is_array() && *unit.index < found.outputs.size();
  return found.state == "running" && item ? &found : nullptr;
}

Value StepRunner::earlier_outputs(const Unit& unit) const {
  const StepRecord* record = finished_before(unit);
  if (record == nullptr) return Value::object();
  if (!unit.index || record->step == unit.key()) return record->outputs;
  return record->outputs.is_array() && *unit.index < record->outputs.size() ? record->outputs[*unit.index]
                                                                            : Value::object();
}

StepResult StepRunner::converge(const Unit& unit, const StepKind& kind, NodeSession& node, const Value& values,
                                Along along) {
  const Inputs inputs(values);
  const bool before = finished_before(unit) != nullptr;
  bool kept = false;
  ConvergeRequest request;
  request.node = &node;
  request.unit = &unit;
  request.key = unit.key();
  request.become = host_.become_of(*unit.decl);
  request.deadline = deadline_of(*unit.decl, whole_day);
  request.questions = kind.ask(inputs);
  bool not_asked = false;
  request.plan = [&](const Answers& answers) -> Result<Change> {
    Result<Change> change = kind.plan(inputs, answers);
    const bool looking = run_.changes_nothing() && run_.options.asking != Asking::plan;
    if (looking && !before && change && !change->empty() && change->verification == Verification::exit_status) {
      not_asked = true;
      Change nothing;
      nothing.summary = "always runs: whether it is as it was cannot be asked";
      nothing.verification = Verification::exit_status;
      return nothing;
    }
    // What cannot be asked and had finished before the run was cut off is finished.
    if (before && change && !change->empty() && change->verification == Verification::exit_status) {
      kept = true;
      Change nothing;
      nothing.summary = "had finished before";
      return nothing;
    }
    return change;
  };
  request.outputs = [&](const Answers& answers, const std::vector<ActionResult>& results) -> Result<Value> {
    if (not_asked) return Value::object();
    if (kept) return earlier_outputs(unit);
    return kind.outputs(inputs, answers, results);
  };
  request.ahead = [&](Ahead which) { return ahead(node, unit.key(), which); };
  request.expect = [&](const Answers& answers, const Change& change) { return kind.expect(inputs, answers, change); };
  if (along == Along::followers) request.followers = [&] { return followers(node, unit); };
  Result<Converged> done = converger_.run(request);
  if (!done && waits_for_changes(unit, done.error())) {
    return known_when_it_runs(unit, waits_for_its_container(unit, done.error()) ? "" : done.error().message);
  }
  if (!done) return failed(done.error());
  if (done->changed && run_.options.mode == Mode::apply && kind.signature().provides_node) {
    host_.drop_containers(unit.decl->id);
  }
  StepResult result;
  result.progress = done->changed ? Progress::changed : Progress::ok;
  result.summary = std::move(done->summary);
  result.outputs = std::move(done->outputs);
  result.outputs_known = done->outputs_known;
  if (not_asked) {
    result.progress = Progress::unknown;
    result.outputs_known = false;
  } else if (done->changed && before && run_.changes_nothing()) {
    // Not as it was left, but what it gave is still what later steps were told.
    result.outputs = earlier_outputs(unit);
    result.outputs_known = true;
  }
  return result;
}

Result<StepOutcome> StepRunner::run_active(const Unit& unit, const Value& inputs) {
  const ActiveStep* kind = run_.services.registry->find_active(unit.decl->uses);
  if (kind == nullptr) return fail(ErrorKind::internal, unit.decl->uses + " is no active step");
  Result<NodeSession*> node = host_.node_for(*unit.decl);
  if (!node) return fail(node.error());
  ActiveContext context(run_, host_, **node, unit, inputs, deadline_of(*unit.decl, kind->signature().deadline));
  return kind->run(context);
}

namespace {

StepResult judged(StepResult result) {
  if (!result.verdict || result.verdict->kind != VerdictKind::fail) return result;
  result.progress = Progress::failed;
  result.error =
      make_error(ErrorKind::failed_test, result.verdict->sentence.empty() ? result.summary : result.verdict->sentence)
          .with_class(result.verdict->symptom_class);
  return result;
}

}  // namespace

StepResult StepRunner::activate(const Unit& unit, const ActiveStep& kind, NodeSession& node, const Value& inputs) {
  if (run_.changes_nothing() && run_.options.asking != Asking::plan) {
    const bool look = run_.options.asking == Asking::verify && kind.signature().only_looks;
    if (!look) return taken_as_left(unit, kind, node, inputs);
  } else if (run_.changes_nothing()) {
    return preview(unit, kind, node, inputs);
  }
  StepResult result;
  if (kind.signature().once && finished_before(unit) != nullptr) {
    result.progress = Progress::ok;
    result.summary = "had finished before";
    result.outputs = earlier_outputs(unit);
    result.outputs_known = true;
    return result;
  }
  ActiveContext context(run_, host_, node, unit, inputs, deadline_of(*unit.decl, kind.signature().deadline));
  Result<StepOutcome> outcome = kind.run(context);
  if (context.acted() && kind.signature().provides_node) host_.drop_containers(unit.decl->id);
  if (!outcome) {
    result = failed(outcome.error());
    result.outputs = context.remembered();
    keep_first_replaced(unit, result.outputs);
    return result;
  }
  result.progress = outcome->state == StepState::changed ? Progress::changed : Progress::ok;
  result.summary = std::move(outcome->summary);
  result.outputs = context.remembered();
  if (outcome->outputs.is_object()) result.outputs.update(outcome->outputs);
  keep_first_replaced(unit, result.outputs);
  result.outputs_known = true;
  result.verdict = std::move(outcome->verdict);
  return judged(std::move(result));
}

// Rollback goes back over all attempts of a step, so what it arrives at is what was there before the first one.
void StepRunner::keep_first_replaced(const Unit& unit, Value& outputs) {
  constexpr const char* name = "replaces";
  const Lock guard(mutex_);
  if (const Value before = earlier_outputs(unit); before.is_object() && before.contains(name)) {
    replaced_first_.try_emplace(unit.key(), before[name]);
  }
  if (!outputs.is_object() || !outputs.contains(name)) return;
  outputs[name] = replaced_first_.try_emplace(unit.key(), outputs[name]).first->second;
}

StepResult StepRunner::run_unit(const Unit& unit, Along along) {
  Result<std::optional<Prepared>> prepared = prepare(run_, host_.host(), unit, replaced(unit.step));
  if (!prepared) return failed(prepared.error());
  StepResult result;
  const bool planning = run_.options.mode == Mode::plan;
  if (!*prepared || (planning && (*prepared)->wanted && !host_.node_name_for(*unit.decl))) {
    if (!planning) {
      return failed(
          make_error(ErrorKind::invalid, fmt::format("step {} reads outputs of a step that has none", unit.decl->id))
              .at(unit.decl->mark));
    }
    return known_when_it_runs(unit, "");
  }
  if (!(*prepared)->wanted) {
    result.progress = Progress::skipped;
    result.outputs_known = true;
    result.summary = "when: " + unit.decl->when->text();
    return result;
  }
  Result<NodeSession*> node = host_.node_for(*unit.decl);
  if (!node && waits_for_changes(unit, node.error())) return known_when_it_runs(unit, "");
  if (!node) return failed(node.error());
  const Value& inputs = (*prepared)->inputs;
  const StepKind* converging = run_.services.registry->find_converging(unit.decl->uses);
  const ActiveStep* active = run_.services.registry->find_active(unit.decl->uses);
  try {
    result = converging != nullptr ? converge(unit, *converging, **node, inputs, along)
                                   : activate(unit, *active, **node, inputs);
  } catch (const std::exception& problem) {
    // Step kinds report what they expect as values, so this is a bug in one; the other hosts go on all the same.
    result = failed(
        make_error(ErrorKind::internal, fmt::format("bug in step kind {}: {}", unit.decl->uses, problem.what())));
  }
  result.inputs = inputs;
  return result;
}

StepResult StepRunner::run_units(const std::vector<Unit>& units, Along along) {
  StepResult all;
  all.progress = Progress::skipped;
  all.outputs_known = true;
  all.inputs = Value::array();
  all.outputs = Value::array();
  std::size_t changed = 0;
  for (const Unit& unit : units) {
    StepResult one = run_unit(unit, along);
    all.inputs.push_back(one.inputs);
    all.outputs.push_back(one.outputs);
    all.outputs_known = all.outputs_known && one.outputs_known;
    if (one.verdict) all.verdict = one.verdict;
    const bool stop = one.progress != Progress::ok && one.progress != Progress::changed &&
                      one.progress != Progress::skipped && one.progress != Progress::unknown;
    if (stop) {
      all.progress = one.progress;
      all.summary = fmt::format("item {}: {}", *unit.index, one.summary);
      all.error = one.error;
      all.outputs.erase(all.outputs.size() - 1);
      return all;
    }
    changed += one.progress == Progress::changed ? 1 : 0;
    if (one.progress == Progress::changed || one.progress == Progress::unknown) {
      const Lock guard(mutex_);
      items_will_change_.insert(unit.step);
    }
    if (all.progress == Progress::skipped || one.progress == Progress::changed || one.progress == Progress::unknown) {
      all.progress = one.progress;
    }
    StepResult so_far = all;
    so_far.progress = Progress::running;
    keep_record(unit.step, so_far);
  }
  all.summary = fmt::format("{} of {} items changed", changed, units.size());
  return all;
}

StepResult StepRunner::attempt(std::size_t step, Along along) {
  const Result<std::optional<std::vector<Unit>>> units = units_of(run_, host_.host(), step);
  if (!units) return failed(units.error());
  if (!*units) {
    Unit unknown{step, &run_.playbook.steps[step], {}, {}};
    if (run_.changes_nothing()) return known_when_it_runs(unknown, "");
    return failed(
        make_error(ErrorKind::invalid, "foreach of step " + unknown.decl->id + " reads outputs of a step that has none")
            .at(unknown.decl->mark));
  }
  return run_.playbook.steps[step].foreach ? run_units(**units, along) : run_unit((*units)->front(), along);
}

StepResult StepRunner::run(std::size_t step, Along along) {
  const StepDecl& decl = run_.playbook.steps[step];
  Clock& clock = *run_.services.clock;
  const SteadyPoint begin = clock.steady();
  StepResult result;
  Milliseconds delay = decl.retry.delay;
  for (int attempt_number = 1;; ++attempt_number) {
    result = StepResult();
    result.progress = Progress::running;
    keep_record(step, result);
    run_.recorder.emit(EventType::step_started, node_name(decl), decl.id,
                       {{"uses", decl.uses}, {"attempt", attempt_number}});
    result = attempt(step, along);
    // Whatever went wrong, nothing that follows it may go on by itself.
    if (!lets_go_on(result)) pipes_.drop(step);
    const bool again = result.progress == Progress::failed && attempt_number <= decl.retry.times &&
                       !run_.stop_starting() && result.error->kind != ErrorKind::busy;
    if (!again) break;
    run_.recorder.emit(EventType::retry, node_name(decl), decl.id,
                       {{"attempt", attempt_number},
                        {"of", decl.retry.times},
                        {"delay_ms", delay.count()},
                        {"reason", result.summary}});
    clock.sleep(delay, [&] { return run_.stop_starting(); });
    host_.cache().changed();  // the world may have moved on meanwhile
    delay = Milliseconds(static_cast<Milliseconds::rep>(static_cast<double>(delay.count()) * decl.retry.backoff));
  }
  say_finished(decl, result, std::chrono::duration_cast<Milliseconds>(clock.steady() - begin));
  keep_record(step, result);
  return result;
}

StepResult StepRunner::leave_out(std::size_t step, Progress progress, const std::string& why) {
  StepResult result;
  result.progress = progress;
  result.summary = why;
  result.outputs_known = progress == Progress::skipped;
  say_finished(run_.playbook.steps[step], result, Milliseconds(0));
  keep_record(step, result);
  return result;
}

std::optional<StepResult> StepRunner::refuse(std::size_t step) {
  const Result<std::optional<std::vector<Unit>>> units = units_of(run_, host_.host(), step);
  Result<void> judged;
  if (!units) {
    judged = fail(units.error());
  } else if (*units) {
    for (const Unit& unit : **units) {
      judged = judge(run_, host_.host(), unit);
      if (!judged) break;
    }
  }
  if (judged) return std::nullopt;
  const StepDecl& decl = run_.playbook.steps[step];
  run_.recorder.emit(EventType::step_started, node_name(decl), decl.id, {{"uses", decl.uses}, {"attempt", 1}});
  StepResult result = failed(judged.error());
  say_finished(decl, result, Milliseconds(0));
  keep_record(step, result);
  return result;
}

void StepRunner::say_finished(const StepDecl& decl, const StepResult& result, Milliseconds took) {
  const bool refused = result.progress == Progress::failed && result.error && result.error->kind == ErrorKind::refused;
  Value data = {{"state", refused ? "refused" : std::string(to_string(result.progress))},
                {"summary", result.summary},
                {"milliseconds", took.count()},
                {"outputs", result.outputs}};
  if (result.progress == Progress::failed && decl.ignore_failure) data["ignored"] = true;
  if (result.error) data["error"] = error_value(*result.error);
  if (result.verdict) {
    data["verdict"] = {{"kind", to_string(result.verdict->kind)},
                       {"class", result.verdict->symptom_class},
                       {"sentence", result.verdict->sentence}};
  }
  run_.recorder.emit(EventType::step_finished, node_name(decl), decl.id, std::move(data));
}

void StepRunner::keep_record(std::size_t step, const StepResult& result) {
  StepRecord record;
  record.host = host_.name();
  record.step = run_.playbook.steps[step].id;
  record.state = to_string(result.progress);
  record.inputs = result.inputs;
  record.outputs = result.outputs;
  if (run_.options.mode == Mode::apply) run_.recorder.step(record);
}

}  // namespace millwright
