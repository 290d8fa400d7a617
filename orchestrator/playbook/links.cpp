#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "orchestrator/base/text.hpp"
#include "orchestrator/graph/graph.hpp"
#include "orchestrator/playbook/document.hpp"

namespace millwright {
namespace {

std::string place(const SourceMark& mark) { return fmt::format("{}:{}:{}", mark.file, mark.line, mark.column); }

void register_names(Draft& draft) {
  for (std::size_t i = 0; i < draft.steps.size(); ++i) {
    StepDraft& step = draft.steps[i];
    if (!step.decl.id.empty()) {
      const auto [first, is_new] = draft.positions.emplace(step.decl.id, i);
      if (!is_new) {
        draft.reader.error(step.id_mark, fmt::format("two steps have the id '{}'", step.decl.id),
                           fmt::format("the first is at {}", place(draft.steps[first->second].id_mark)));
      }
    }
    if (step.decl.register_as.empty()) continue;
    const auto [first, is_new] = draft.registered.emplace(step.decl.register_as, i);
    if (!is_new) {
      draft.reader.error(step.register_mark, fmt::format("two steps register '{}'", step.decl.register_as),
                         fmt::format("the first is at {}", place(draft.steps[first->second].register_mark)));
    }
  }
}

// "file", "file-2", "gpu-bind" for gpu.bind: a dot would end the name in an expression. Ids that are given go first.
void make_ids(Draft& draft) {
  std::unordered_map<std::string, int> used;
  for (std::size_t i = 0; i < draft.steps.size(); ++i) {
    StepDecl& step = draft.steps[i].decl;
    if (!step.id.empty()) continue;
    const std::string base = step.uses.empty() ? "step" : replace_all(step.uses, ".", "-");
    int& number = used[base];
    do {
      ++number;
      step.id = number == 1 ? base : fmt::format("{}-{}", base, number);
    } while (!draft.positions.emplace(step.id, i).second);
  }
}

std::vector<std::string> all_ids(const Draft& draft) {
  std::vector<std::string> ids;
  if (!draft.reader.suggests()) return ids;
  for (const StepDraft& step : draft.steps) ids.push_back(step.decl.id);
  return ids;
}

bool check_needs(Draft& draft, StepDraft& step) {
  bool good = true;
  for (const NeedDecl& need : step.decl.needs) {
    if (draft.positions.count(need.step) != 0) continue;
    draft.reader.error(need.mark, fmt::format("no step has the id '{}'", need.step),
                       draft.reader.suggest(need.step, all_ids(draft)));
    good = false;
  }
  return good;
}

bool check_in(Draft& draft, StepDraft& step) {
  if (step.decl.in.empty()) return true;
  const auto found = draft.positions.find(step.decl.in);
  if (found == draft.positions.end()) {
    std::vector<std::string> candidates;
    for (const StepDraft& other : draft.steps) {
      if (other.kind != nullptr && other.kind->signature().provides_node) candidates.push_back(other.decl.id);
    }
    draft.reader.error(step.in_mark, fmt::format("no step has the id '{}'", step.decl.in),
                       draft.reader.suggest(step.decl.in, candidates, "'in' names the step that makes the container"));
    return false;
  }
  const StepDraft& node = draft.steps[found->second];
  if (node.kind != nullptr && !node.kind->signature().provides_node) {
    draft.reader.error(step.in_mark,
                       fmt::format("step '{}' makes no node to run in: it uses {}", step.decl.in, node.decl.uses));
  } else if (node.decl.foreach) {
    draft.reader.error(step.in_mark, fmt::format("step '{}' has a foreach, so it makes no single node", step.decl.in));
  }
  const auto is_needed = [&](const NeedDecl& need) { return need.step == step.decl.in; };
  if (std::none_of(step.decl.needs.begin(), step.decl.needs.end(), is_needed)) {
    step.decl.needs.push_back({step.decl.in, false, step.in_mark});
  }
  return true;
}

// One name is one lock: two steps that mean it differently would both be wrong about it.
void check_locks(Draft& draft) {
  std::map<std::string, const StepDraft*> first;
  for (const StepDraft& step : draft.steps) {
    const LockDecl& lock = step.decl.lock;
    if (lock.name.empty()) continue;
    const StepDraft* known = first.emplace(lock.name, &step).first->second;
    if (known->decl.lock.count == lock.count && known->decl.lock.on_all == lock.on_all) continue;
    draft.reader.error(step.lock_mark,
                       fmt::format("lock '{}' has another count or reach at step '{}'", lock.name, known->decl.id),
                       "write the same at every step that takes it");
  }
}

// Every cycle is told: the edge behind the first of its nodes is taken out, and the rest searched again.
bool report_cycles(Draft& draft, std::vector<std::vector<std::size_t>> needs) {
  constexpr int most = 20;
  int found = 0;
  for (std::vector<std::size_t> cycle = find_cycle(needs); !cycle.empty() && found < most; cycle = find_cycle(needs)) {
    ++found;
    const auto edge = std::find(needs[cycle[0]].begin(), needs[cycle[0]].end(), cycle[1]);
    const auto position = static_cast<std::size_t>(edge - needs[cycle[0]].begin());
    std::vector<std::string> ids;
    for (const std::size_t i : cycle) ids.push_back(draft.steps[i].decl.id);
    const bool itself = cycle[0] == cycle[1];
    draft.reader.error(
        draft.steps[cycle[0]].decl.needs[position].mark,
        itself ? fmt::format("step '{}' waits for itself", ids[0]) : "steps wait for each other: " + join(ids, " -> "),
        itself ? "" : "each needs the next one");
    *edge = needs.size();  // a new node without needs: positions stay as they are
    needs.emplace_back();
  }
  return found > 0;
}

}  // namespace

std::vector<std::size_t> link_steps(Draft& draft) {
  register_names(draft);
  make_ids(draft);
  check_locks(draft);
  bool good = true;
  std::vector<GraphNode> nodes;
  for (std::size_t i = 0; i < draft.steps.size(); ++i) {
    StepDraft& step = draft.steps[i];
    if (!step.needs_given && i > 0) step.decl.needs.push_back({draft.steps[i - 1].decl.id, false, step.decl.mark});
    good = check_needs(draft, step) && good;
    good = check_in(draft, step) && good;
    GraphNode node;
    node.id = step.decl.id;
    for (const NeedDecl& need : step.decl.needs) node.needs.push_back(need.step);
    nodes.push_back(std::move(node));
  }
  if (!good || draft.positions.size() != draft.steps.size()) return {};
  std::vector<std::vector<std::size_t>> needs(draft.steps.size());
  for (std::size_t i = 0; i < needs.size(); ++i) {
    for (const NeedDecl& need : draft.steps[i].decl.needs) needs[i].push_back(draft.positions.at(need.step));
  }
  if (report_cycles(draft, std::move(needs))) return {};
  const Result<StepGraph> graph = StepGraph::build(std::move(nodes));
  return graph ? graph->order() : std::vector<std::size_t>();
}

}  // namespace millwright
