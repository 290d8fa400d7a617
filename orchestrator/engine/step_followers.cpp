// What travels with the questions and the actions of one step: questions of others, and actions of those behind it.
#include <algorithm>

#include "orchestrator/engine/step_runner.hpp"

namespace millwright {

namespace {

// What is on its way when Ctrl-C comes is stopped on the node, so this only bounds memory and what is planned in vain.
constexpr std::size_t most_units = 128;
constexpr std::size_t most_bytes = 8u << 20;

std::size_t size_of(const PipeUnit& unit) {
  std::size_t size = 4096;  // marks, locks and guards
  for (const Question& question : unit.questions) size += 3 * question.script.size();
  for (const Action& action : unit.change.actions) {
    size += action.script.size() + action.undo.size() + action.save.size();
    for (const FilePlacement& file : action.files) size += file.content ? file.content->size() : 0;
  }
  return size;
}

}  // namespace

std::vector<Wanted> StepRunner::ahead(const NodeSession& node, const std::string& except, Ahead which) const {
  std::vector<Wanted> wanted;
  for (std::size_t step : run_.order.order()) {
    const StepDecl& decl = run_.playbook.steps[step];
    const StepKind* kind = run_.services.registry->find_converging(decl.uses);
    const Progress progress = run_.board.get(host_.name(), step).progress;
    // Another step that has begun may be about to ask; behind an action it has what it wants.
    const bool own = progress == Progress::running && (except == decl.id || except.rfind(decl.id + "[", 0) == 0);
    const bool begun = progress == Progress::running && which == Ahead::missing;
    if (kind == nullptr || (progress != Progress::waiting && !own && !begun)) continue;
    if (host_.node_name_for(decl) != node.name) continue;
    const auto units = units_of(run_, host_.host(), step);
    if (!units || !*units) continue;
    for (const Unit& unit : **units) {
      if (unit.key() == except) continue;
      if (which == Ahead::missing && node.cache.has(node.name, unit.key())) continue;
      // A mistake in a later step is reported when it is that step's turn.
      const auto prepared = prepare(run_, host_.host(), unit, replaced(step));
      if (!prepared || !*prepared || !(*prepared)->wanted) continue;
      wanted.push_back({unit.key(), kind->ask(Inputs((*prepared)->inputs)), host_.become_of(decl)});
    }
  }
  return wanted;
}

// Collects the units of one pipeline behind its first: a path through the graph of what can be planned now.
class StepRunner::Path {
 public:
  Path(const StepRunner& runner, const NodeSession& node, Become become)
      : runner_(runner), run_(runner.run_), host_(runner.host_), node_(node), become_(become) {}

  // False: nothing can stand behind these.
  bool add(const std::vector<Unit>& units) {
    return std::all_of(units.begin(), units.end(), [&](const Unit& unit) { return add(unit); });
  }
  // Whether it could stand here, going by what its declaration says and what it needs.
  bool takes(std::size_t step, const std::set<std::size_t>& before, std::size_t last) const;
  std::vector<PipeUnit> take() { return std::move(units_); }

 private:
  bool add(const Unit& unit);

  const StepRunner& runner_;
  RunContext& run_;
  HostSession& host_;
  const NodeSession& node_;
  const Become become_;
  std::vector<PipeUnit> units_;
  std::size_t bytes_ = 0;
};

// Only what needs the step before it: what does not may run beside it, as it always does.
bool StepRunner::Path::takes(std::size_t step, const std::set<std::size_t>& before, std::size_t last) const {
  const StepDecl& decl = run_.playbook.steps[step];
  const StepKind* kind = run_.services.registry->find_converging(decl.uses);
  if (kind == nullptr || kind->signature().provides_node || !decl.lock.name.empty()) return false;
  if (!run_.order.needs_all(step).empty() || host_.become_of(decl) != become_) return false;
  const std::vector<std::size_t>& needs = run_.order.needs(step);
  if (std::find(needs.begin(), needs.end(), last) == needs.end()) return false;
  const auto there = [&](std::size_t need) {
    return before.count(need) != 0 || lets_go_on(run_.board.get(host_.name(), need));
  };
  return std::all_of(needs.begin(), needs.end(), there) && host_.node_name_for(decl) == node_.name;
}

bool StepRunner::Path::add(const Unit& unit) {
  if (units_.size() >= most_units || bytes_ >= most_bytes) return false;
  // A mistake in a later step is reported when it is that step's turn.
  const auto prepared = prepare(run_, host_.host(), unit, runner_.replaced(unit.step));
  if (!prepared || !*prepared) return false;
  if (!(*prepared)->wanted) return true;
  const StepKind* kind = run_.services.registry->find_converging(unit.decl->uses);
  const Inputs inputs((*prepared)->inputs);
  PipeUnit along;
  along.unit = unit;
  along.questions = kind->ask(inputs);
  std::optional<Answers> answers = along.questions.empty() ? Answers() : node_.cache.find(node_.name, unit.key());
  if (!answers) return false;
  Result<Change> change = kind->plan(inputs, *answers);
  if (!change) return false;
  if (change->verification == Verification::exit_status && runner_.finished_before(unit) != nullptr) {
    return along.questions.empty();  // it will do nothing
  }
  if (change->empty() && along.questions.empty()) return true;
  const bool checks_itself = std::any_of(change->actions.begin(), change->actions.end(),
                                         [](const Action& action) { return action.marks.guard_self; });
  if (checks_itself || !fits_pipeline(*change, *unit.decl)) return false;
  if (!change->empty()) along.expected = kind->expect(inputs, *answers, *change);
  along.answers = std::move(*answers);
  along.change = std::move(*change);
  along.deadline = runner_.deadline_of(*unit.decl, whole_day);
  bytes_ += size_of(along);
  units_.push_back(std::move(along));
  return units_.back().lets_follow();
}

std::vector<PipeUnit> StepRunner::followers(const NodeSession& node, const Unit& first) const {
  Path path(*this, node, host_.become_of(*first.decl));
  std::set<std::size_t> before = {first.step};
  std::size_t last = first.step;
  if (first.index) {
    const auto units = units_of(run_, host_.host(), first.step);
    if (!units || !*units) return {};
    const std::vector<Unit> rest((*units)->begin() + static_cast<std::ptrdiff_t>(*first.index) + 1, (*units)->end());
    if (!path.add(rest)) return path.take();
  }
  const StepKind* kind = run_.services.registry->find_converging(first.decl->uses);
  if (kind->signature().provides_node) return path.take();
  for (std::size_t step : run_.order.order()) {
    if (run_.board.get(host_.name(), step).progress != Progress::waiting || !path.takes(step, before, last)) continue;
    const auto units = units_of(run_, host_.host(), step);
    if (!units || !*units) continue;
    if (!path.add(**units)) break;
    before.insert(step);
    last = step;
  }
  return path.take();
}

}  // namespace millwright
