#include "orchestrator/engine/selection.hpp"

#include <algorithm>

#include "orchestrator/base/text.hpp"

namespace millwright {

namespace {

bool any_of_tags(const StepDecl& step, const std::vector<std::string>& tags) {
  return std::any_of(tags.begin(), tags.end(), [&](const std::string& tag) {
    return std::find(step.tags.begin(), step.tags.end(), tag) != step.tags.end();
  });
}

}  // namespace

Result<std::set<std::size_t>> left_out(const Playbook& playbook, const StepOrder& order, const RunOptions& options) {
  std::set<std::size_t> out;
  for (std::size_t i = 0; i < playbook.steps.size(); ++i) {
    const StepDecl& step = playbook.steps[i];
    const bool wanted = options.tags.empty() || any_of_tags(step, options.tags);
    if (!wanted || any_of_tags(step, options.skip_tags)) out.insert(i);
  }
  if (!options.start_at.empty()) {
    if (!order.position(options.start_at)) {
      std::vector<std::string> ids;
      for (const StepDecl& step : playbook.steps) ids.push_back(step.id);
      const auto near = nearest(options.start_at, ids);
      Error error = make_error(ErrorKind::invalid, "--start-at: no step " + options.start_at);
      error.hint = near ? "did you mean '" + *near + "'?" : "the steps are: " + join(ids, ", ");
      return fail(std::move(error));
    }
    for (std::size_t step : order.order()) {
      if (playbook.steps[step].id == options.start_at) break;
      out.insert(step);
    }
  }
  bool progressed = true;
  while (progressed) {
    progressed = false;
    for (std::size_t i = 0; i < playbook.steps.size(); ++i) {
      const auto provider = order.position(playbook.steps[i].in);
      if (out.count(i) != 0 || !provider || out.count(*provider) == 0) continue;
      out.erase(*provider);
      progressed = true;
    }
  }
  return out;
}

bool is_read(const Playbook& playbook, std::size_t step, const std::set<std::size_t>& out) {
  const StepDecl& read = playbook.steps[step];
  const auto names = [&](const auto& references) {
    return std::any_of(references.begin(), references.end(), [&](const auto& reference) {
      const std::vector<std::string>& path = reference.first;
      if (path.empty()) return false;
      if (path[0] == "steps") return path.size() < 2 || path[1] == read.id;
      return path[0] == read.register_as;
    });
  };
  for (const auto& [name, value] : playbook.vars) {
    if (names(value.references())) return true;
  }
  for (std::size_t i = 0; i < playbook.steps.size(); ++i) {
    const StepDecl& other = playbook.steps[i];
    if (out.count(i) != 0) continue;
    if (names(other.with.references()) || (other.when && names(other.when->references())) ||
        (other.foreach && names(other.foreach->references()))) {
      return true;
    }
  }
  return false;
}

}  // namespace millwright
