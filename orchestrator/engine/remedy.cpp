#include "orchestrator/engine/remedy.hpp"

#include <fmt/format.h>

namespace millwright {

std::string symptom_of(const StepResult& result) {
  if (result.error && !result.error->symptom_class.empty()) return result.error->symptom_class;
  if (result.verdict) return result.verdict->symptom_class;
  return {};
}

// The failed step itself first, then what it needs, nearest first: the first whose kind the advisor wants to change.
std::optional<RemedyLoop::Choice> RemedyLoop::choose(std::size_t failed_step, const StepResult& failure) const {
  std::vector<std::size_t> candidates = {failed_step};
  for (std::size_t step : run_.order.ancestors(failed_step)) candidates.push_back(step);
  for (std::size_t step : candidates) {
    const StepDecl& decl = run_.playbook.steps[step];
    if (decl.foreach) continue;
    const StepResult result = step == failed_step ? failure : run_.board.get(host_.name(), step);
    RemedyQuery query;
    query.symptom_class = symptom_of(failure);
    query.step_inputs = result.inputs;
    query.step_outputs = result.outputs;
    if (const auto holds = holds_.find(step); holds != holds_.end()) {
      query.step_inputs = holds->second.inputs;
      query.step_outputs = holds->second.outputs;
    }
    query.tried = tried_;
    std::optional<Remedy> remedy = run_.services.remedies->next(query);
    if (remedy && remedy->step_kind == decl.uses) {
      return Choice{step, std::move(*remedy), {std::move(query.step_inputs), std::move(query.step_outputs)}};
    }
  }
  return {};
}

StepResult RemedyLoop::rerun(std::size_t from, std::size_t to, std::size_t& failed_at) {
  StepResult result;
  for (std::size_t step : run_.order.between(from, to)) {
    failed_at = step;
    const StepDecl& decl = run_.playbook.steps[step];
    const std::string node = host_.node_name_for(decl).value_or(host_.name());
    const Place place(run_.locks, semaphore_name(decl.lock, node), decl.lock.count,
                      [&] { return run_.stop_starting(); });
    if (!place.granted()) {
      result = StepResult();
      result.progress = Progress::cancelled;
      result.summary = "the run was interrupted";
      return result;
    }
    result = runner_.run(step);
    run_.board.put(host_.name(), step, result);
    const bool bad =
        result.progress != Progress::ok && result.progress != Progress::changed && result.progress != Progress::skipped;
    if (bad) return result;
  }
  return result;
}

StepResult RemedyLoop::cure(std::size_t step, StepResult failure, const HandlerDecl& handler, std::size_t declared_by) {
  Clock& clock = *run_.services.clock;
  const SteadyPoint end = clock.steady() + handler.within;
  std::size_t failed_at = step;
  int& attempt = attempts_[declared_by];
  while (failure.progress == Progress::failed && !symptom_of(failure).empty() && attempt < handler.attempts &&
         clock.steady() < end && !run_.stop_starting() && run_.services.remedies != nullptr) {
    const std::optional<Choice> choice = choose(failed_at, failure);
    if (!choice) break;
    ++attempt;
    const std::string symptom = symptom_of(failure);
    const Remedy& remedy = choice->remedy;
    run_.recorder.emit(EventType::remedy, host_.name(), run_.playbook.steps[choice->step].id,
                       {{"attempt", attempt},
                        {"of", handler.attempts},
                        {"id", remedy.id},
                        {"title", remedy.title},
                        {"class", symptom},
                        {"changes", remedy.set}});
    // What it failed with is no remedy for itself.
    tried_.push_back("before " + choice->held.outputs.dump());
    tried_.push_back(remedy.id);
    tried_.push_back(remedy.id + " " + remedy.set.dump());
    const Value before = runner_.replaced(choice->step);
    Value inputs = before.is_object() ? before : Value::object();
    inputs.update(remedy.set);
    runner_.replace(choice->step, inputs);
    failure = rerun(choice->step, step, failed_at);
    const bool cured = failure.progress != Progress::failed && failure.progress != Progress::unreachable &&
                       failure.progress != Progress::cancelled;
    run_.recorder.emit(EventType::remedy_result, host_.name(), run_.playbook.steps[choice->step].id,
                       {{"id", remedy.id}, {"cured", cured}});
    if (cured) {
      cured_by_ = remedy.title;
      if (remedy.degrades && failure.verdict && failure.verdict->kind == VerdictKind::pass) {
        failure.verdict->kind = VerdictKind::degraded;
        failure.verdict->sentence += " (with " + remedy.title + ")";
      }
      return failure;
    }
    // One change at a time: one that left the symptom as it was is taken away again before the next is tried. A new
    // symptom means that it got further, so it stays.
    holds_.erase(choice->step);
    if (symptom_of(failure) == symptom) {
      runner_.replace(choice->step, before);
      holds_[choice->step] = choice->held;
    }
  }
  // The step that this was about has failed, whichever step on the way to it did so last.
  if (failed_at != step) run_.board.put(host_.name(), failed_at, failure);
  return failure;
}

}  // namespace millwright
