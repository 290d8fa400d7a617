// A step while nothing is changed: what it says of itself, and what stays unknown until it runs.
#include "orchestrator/engine/step_runner.hpp"
#include "steps/contract/drift.hpp"

namespace millwright {

namespace {

// The way to the node, as opposed to what it says.
bool is_way(const Error& error) {
  return error.kind == ErrorKind::connect || error.kind == ErrorKind::auth || error.kind == ErrorKind::host_key ||
         error.kind == ErrorKind::timeout || error.kind == ErrorKind::interrupted;
}

}  // namespace

bool StepRunner::waits_for_changes(const Unit& unit, const Error& error) {
  if (run_.options.mode != Mode::plan) return false;
  if (is_way(error)) return waits_for_its_container(unit, error);
  for (std::size_t before : run_.order.ancestors(unit.step)) {
    const Progress progress = run_.board.get(host_.name(), before).progress;
    if (progress == Progress::changed || progress == Progress::unknown) return true;
  }
  const Lock guard(mutex_);
  return items_will_change_.count(unit.step) != 0;
}

// A container that is still to be made or started cannot be entered yet, and that is no failure of planning.
bool StepRunner::waits_for_its_container(const Unit& unit, const Error& error) const {
  const auto provider = run_.order.position(unit.decl->in);
  if (!provider || !is_way(error) || !host_.reachable() || error.kind == ErrorKind::interrupted) return false;
  const Progress made = run_.board.get(host_.name(), *provider).progress;
  return made == Progress::changed || made == Progress::unknown;
}

StepResult StepRunner::known_when_it_runs(const Unit& unit, const std::string& why) {
  StepResult result;
  result.progress = Progress::unknown;
  result.summary = why.empty() ? "known when it runs" : "now: " + why;
  say_unknown(unit, result.summary);
  return result;
}

void StepRunner::say_unknown(const Unit& unit, const std::string& summary) { say_seen(unit, "unknown", summary); }

void StepRunner::say_seen(const Unit& unit, const std::string& state, const std::string& summary) {
  Value data = {{"state", state}, {"summary", summary}, {"diff", ""}, {"actions", Value::array()}};
  if (unit.index) data["item"] = *unit.index;
  run_.recorder.emit(EventType::step_planned, node_name(*unit.decl), unit.decl->id, std::move(data));
}

// An active step, when nothing is to be changed: what an earlier run left goes on to the steps that read it. Where the
// kind can tell, it is looked at.
StepResult StepRunner::taken_as_left(const Unit& unit, const ActiveStep& kind, NodeSession& node, const Value& inputs) {
  if (finished_before(unit) == nullptr) return preview(unit, kind, node, inputs);
  StepResult result;
  result.progress = Progress::unknown;
  result.summary = "not looked at: as run " + run_.looked_at + " left it";
  result.outputs = earlier_outputs(unit);
  result.outputs_known = true;
  if (dynamic_cast<const TellsDrift*>(&kind) == nullptr) {
    say_unknown(unit, result.summary);
    return result;
  }
  StepResult seen = preview(unit, kind, node, inputs);
  if (seen.progress == Progress::failed) return seen;
  result.progress = seen.progress;
  if (seen.progress != Progress::unknown) result.summary = std::move(seen.summary);
  return result;
}

StepResult StepRunner::preview(const Unit& unit, const ActiveStep& kind, NodeSession& node, const Value& values) {
  const Inputs inputs(values);
  AskBatch batch(node);
  const std::string key = unit.key() + " (preview)";
  batch.add(Wanted{key, kind.preview_questions(inputs), host_.become_of(*unit.decl)});
  if (Result<void> sent = batch.send(); !sent) {
    return waits_for_changes(unit, sent.error()) ? known_when_it_runs(unit, "") : failed(sent.error());
  }
  const Result<std::string> text = kind.preview(inputs, batch.answers(key));
  if (!text && waits_for_changes(unit, text.error())) return known_when_it_runs(unit, text.error().message);
  if (!text) return failed(text.error());
  StepResult result;
  result.progress = Progress::unknown;
  result.summary = *text;
  const auto* tells = dynamic_cast<const TellsDrift*>(&kind);
  if (tells != nullptr && run_.options.asking != Asking::plan) {
    if (const std::optional<bool> drifted = tells->drifted(inputs, batch.answers(key)))
      result.progress = *drifted ? Progress::changed : Progress::ok;
  }
  const bool change = result.progress == Progress::changed;
  say_seen(unit, change ? "change" : std::string(to_string(result.progress)), result.summary);
  return result;
}

Result<std::optional<Change>> StepRunner::plan_now(const Unit& unit) {
  const StepKind* kind = run_.services.registry->find_converging(unit.decl->uses);
  if (kind == nullptr || !host_.node_name_for(*unit.decl)) return std::optional<Change>();
  Result<std::optional<Prepared>> prepared = prepare(run_, host_.host(), unit, replaced(unit.step));
  if (!prepared) return fail(prepared.error());
  if (!*prepared || !(*prepared)->wanted) return std::optional<Change>();
  Result<NodeSession*> node = host_.node_for(*unit.decl);
  if (!node) return fail(node.error());
  const Inputs inputs((*prepared)->inputs);
  AskBatch batch(**node);
  batch.add(Wanted{unit.key(), kind->ask(inputs), host_.become_of(*unit.decl)});
  if (Result<void> sent = batch.send(); !sent) return fail(sent.error());
  Result<Change> change = kind->plan(inputs, batch.answers(unit.key()));
  if (!change) return fail(change.error());
  return std::optional(std::move(*change));
}

}  // namespace millwright
