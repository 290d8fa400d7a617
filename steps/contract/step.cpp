#include "steps/contract/step.hpp"

#include <algorithm>
#include <stdexcept>

namespace millwright {

std::vector<Error> AnyStepKind::check(const Inputs&) const { return {}; }

std::vector<Expectation> StepKind::expect(const Inputs&, const Answers&, const Change&) const { return {}; }

Result<Value> StepKind::outputs(const Inputs& inputs, const Answers& answers, const std::vector<ActionResult>&) const {
  Result<Change> change = plan(inputs, answers);
  if (!change) return fail(change.error());
  return change->outputs;
}

std::string_view to_string(VerdictKind kind) {
  switch (kind) {
    case VerdictKind::pass:
      return "pass";
    case VerdictKind::degraded:
      return "degraded";
    case VerdictKind::fail:
      return "fail";
    case VerdictKind::inconclusive:
      return "inconclusive";
  }
  return "inconclusive";
}

void StepContext::remember(const std::string&, const Value&) {}

std::vector<Question> ActiveStep::preview_questions(const Inputs&) const { return {}; }

Result<std::string> ActiveStep::preview(const Inputs&, const Answers&) const { return "known when it runs"; }

namespace {

template <class Map>
auto find_in(const Map& kinds, std::string_view name) -> decltype(kinds.begin()->second.get()) {
  const auto it = kinds.find(name);
  return it == kinds.end() ? nullptr : it->second.get();
}

}  // namespace

void StepRegistry::add(std::unique_ptr<StepKind> kind) {
  const std::string name = kind->signature().kind;
  if (find(name) != nullptr) throw std::logic_error("step kind registered twice: " + name);
  converging_[name] = std::move(kind);
}

void StepRegistry::add(std::unique_ptr<ActiveStep> kind) {
  const std::string name = kind->signature().kind;
  if (find(name) != nullptr) throw std::logic_error("step kind registered twice: " + name);
  active_[name] = std::move(kind);
}

const StepKind* StepRegistry::find_converging(std::string_view name) const { return find_in(converging_, name); }
const ActiveStep* StepRegistry::find_active(std::string_view name) const { return find_in(active_, name); }

const AnyStepKind* StepRegistry::find(std::string_view name) const {
  if (const StepKind* kind = find_converging(name)) return kind;
  return find_active(name);
}

std::vector<std::string> StepRegistry::names() const {
  std::vector<std::string> out;
  for (const auto& [name, kind] : converging_) out.push_back(name);
  for (const auto& [name, kind] : active_) out.push_back(name);
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace millwright
