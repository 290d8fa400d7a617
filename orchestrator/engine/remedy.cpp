#include "orchestrator/engine/remedy.hpp"

#include <fmt/format.h>

namespace millwright {

std::string symptom_of(const StepResult& result) {
  if (result.error && !result.error->symptom_class.empty()) return result.error->symptom_class;
  if (result.verdict) return result.verdict->symptom_class;
  return {};
}

namespace {

// No ladder is as long.
constexpr int kMostRungs = 40;

std::string text_of(const Value& object, const char* key) {
  if (!object.is_object()) return {};
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

// The same model has another folder on the next host.
std::string last_part(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path.substr(path.rfind('/') + 1);
}

// The case that a remedy was, or is to be, tried in; what runs is said by the outputs, what is wanted by the inputs.
WorkedRemedy case_of(const RemedyQuery& query) {
  WorkedRemedy out;
  out.symptom_class = query.symptom_class;
  out.engine = text_of(query.step_inputs, "engine");
  out.version = text_of(query.step_outputs, "version");
  if (out.version.empty()) out.version = text_of(query.step_inputs, "version");
  out.model = last_part(text_of(query.step_inputs, "model"));
  return out;
}

// How much the case is like this one; 0: too little to go by.
int likeness(const WorkedRemedy& before, const WorkedRemedy& now) {
  const bool version = before.version == now.version;
  const bool model = before.model == now.model;
  return version && model ? 3 : version ? 2 : model && !now.model.empty() ? 1 : 0;
}

bool same_change(const WorkedRemedy& before, const Remedy& remedy) {
  return before.remedy == remedy.id && text_of(before.set, "version") == text_of(remedy.set, "version");
}

}  // namespace

std::vector<WorkedRemedy> RemedyLoop::worked_before(const RemedyQuery& query) {
  if (run_.services.remembered == nullptr) return {};
  auto rows = run_.services.remembered->worked(query.symptom_class, text_of(query.step_inputs, "engine"));
  if (rows) return std::move(*rows);
  if (!warned_)
    run_.recorder.emit(EventType::warning, host_.name(), "",
                       {{"text", "remedies that worked before are not known: " + rows.error().message}});
  warned_ = true;
  return {};
}

std::optional<RemedyLoop::Choice> RemedyLoop::propose(const RemedyQuery& query) {
  std::optional<Remedy> first = run_.services.remedies->next(query);
  if (!first) return {};
  const WorkedRemedy now = case_of(query);
  const std::vector<WorkedRemedy> rows = worked_before(query);
  Choice best{0, *first, {}, ""};
  int likest = 0;
  RemedyQuery below = query;
  std::optional<Remedy> rung = std::move(first);
  for (int i = 0; !rows.empty() && rung && i < kMostRungs; ++i) {
    for (const WorkedRemedy& before : rows) {
      const int like = likeness(before, now);
      if (like == 0 || !same_change(before, *rung)) continue;
      if (like < likest || (like == likest && best.remedy.id != rung->id)) continue;
      likest = like;
      best.remedy = *rung;
      best.worked_on = before.host;
    }
    below.tried.push_back(rung->id);
    below.tried.push_back(rung->id + " " + rung->set.dump());
    rung = run_.services.remedies->next(below);
  }
  return best;
}

void RemedyLoop::keep_learned() {
  if (run_.services.remembered == nullptr) return;
  if (auto kept = run_.services.remembered->remember(in_effect_); !kept)
    run_.recorder.emit(EventType::warning, host_.name(), "",
                       {{"text", "what helped is not kept for the next host: " + kept.error().message}});
}

// The failed step itself first, then what it needs, nearest first: the first whose kind the advisor wants to change.
std::optional<RemedyLoop::Choice> RemedyLoop::choose(std::size_t failed_step, const StepResult& failure) {
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
    std::optional<Choice> choice = propose(query);
    if (choice && choice->remedy.step_kind == decl.uses) {
      choice->step = step;
      choice->held = {std::move(query.step_inputs), std::move(query.step_outputs)};
      return choice;
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

void RemedyLoop::announce(const Choice& choice, const std::string& symptom, int attempt, int of) {
  const Remedy& remedy = choice.remedy;
  Value data = {{"attempt", attempt},    {"of", of},         {"id", remedy.id},
                {"title", remedy.title}, {"class", symptom}, {"changes", remedy.set}};
  if (!choice.worked_on.empty()) {
    data["title"] = fmt::format("{} (worked on {} before)", remedy.title, choice.worked_on);
    data["worked_on"] = choice.worked_on;
  }
  run_.recorder.emit(EventType::remedy, host_.name(), run_.playbook.steps[choice.step].id, std::move(data));
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
    announce(*choice, symptom, attempt, handler.attempts);
    // What it failed with is no remedy for itself.
    tried_.push_back("before " + choice->held.outputs.dump());
    tried_.push_back(remedy.id);
    tried_.push_back(remedy.id + " " + remedy.set.dump());
    const Value before = runner_.replaced(choice->step);
    Value inputs = before.is_object() ? before : Value::object();
    inputs.update(remedy.set);
    runner_.replace(choice->step, inputs);
    WorkedRemedy change = case_of({symptom, choice->held.inputs, choice->held.outputs, {}});
    change.remedy = remedy.id;
    change.set = remedy.set;
    change.host = host_.name();
    change.at = iso_utc(clock.now());
    in_effect_.push_back(std::move(change));
    failure = rerun(choice->step, step, failed_at);
    const bool cured = failure.progress != Progress::failed && failure.progress != Progress::unreachable &&
                       failure.progress != Progress::cancelled;
    run_.recorder.emit(EventType::remedy_result, host_.name(), run_.playbook.steps[choice->step].id,
                       {{"id", remedy.id}, {"cured", cured}});
    if (cured) {
      keep_learned();
      in_effect_.clear();
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
      in_effect_.pop_back();
      runner_.replace(choice->step, before);
      holds_[choice->step] = choice->held;
    }
  }
  // The step that this was about has failed, whichever step on the way to it did so last.
  if (failed_at != step) run_.board.put(host_.name(), failed_at, failure);
  return failure;
}

}  // namespace millwright
