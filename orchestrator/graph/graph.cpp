#include "orchestrator/graph/graph.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <queue>
#include <unordered_map>

#include "orchestrator/base/text.hpp"

namespace millwright {
namespace {

using Edges = std::vector<std::vector<std::size_t>>;

enum class Visit { fresh, open, done };

Failure about(const std::string& id, std::string message, std::string hint = "") {
  Error error = make_error(ErrorKind::invalid, std::move(message));
  error.hint = std::move(hint);
  error.detail = id;
  return fail(std::move(error));
}

std::vector<bool> reached(const Edges& edges, std::size_t from) {
  std::vector<bool> seen(edges.size(), false);
  std::vector<std::size_t> todo = {from};
  seen[from] = true;
  while (!todo.empty()) {
    const std::size_t node = todo.back();
    todo.pop_back();
    for (const std::size_t next : edges[node]) {
      if (seen[next]) continue;
      seen[next] = true;
      todo.push_back(next);
    }
  }
  return seen;
}

std::vector<std::size_t> topological(const Edges& needs, const Edges& needed_by) {
  std::vector<std::size_t> waits_for(needs.size());
  std::priority_queue<std::size_t, std::vector<std::size_t>, std::greater<>> ready;
  for (std::size_t i = 0; i < needs.size(); ++i) {
    waits_for[i] = needs[i].size();
    if (waits_for[i] == 0) ready.push(i);
  }
  std::vector<std::size_t> order;
  order.reserve(needs.size());
  while (!ready.empty()) {
    const std::size_t node = ready.top();
    ready.pop();
    order.push_back(node);
    for (const std::size_t next : needed_by[node]) {
      if (--waits_for[next] == 0) ready.push(next);
    }
  }
  return order;
}

}  // namespace

std::vector<std::size_t> find_cycle(const Edges& needs) {
  std::vector<Visit> visited(needs.size(), Visit::fresh);
  for (std::size_t root = 0; root < needs.size(); ++root) {
    if (visited[root] != Visit::fresh) continue;
    std::vector<std::pair<std::size_t, std::size_t>> path = {{root, 0}};  // node, next of its needs
    visited[root] = Visit::open;
    while (!path.empty()) {
      auto& [node, next] = path.back();
      if (next == needs[node].size()) {
        visited[node] = Visit::done;
        path.pop_back();
        continue;
      }
      const std::size_t needed = needs[node][next++];
      if (visited[needed] == Visit::open) {
        const auto start =
            std::find_if(path.begin(), path.end(), [&](const auto& step) { return step.first == needed; });
        std::vector<std::size_t> cycle;
        for (auto at = start; at != path.end(); ++at) cycle.push_back(at->first);
        cycle.push_back(needed);
        return cycle;
      }
      if (visited[needed] == Visit::fresh) {
        visited[needed] = Visit::open;
        path.emplace_back(needed, 0);
      }
    }
  }
  return {};
}

Result<StepGraph> StepGraph::build(std::vector<GraphNode> nodes) {
  StepGraph graph;
  std::unordered_map<std::string, std::size_t> positions;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (!positions.emplace(nodes[i].id, i).second) {
      return about(nodes[i].id, fmt::format("two steps are named '{}'", nodes[i].id));
    }
  }
  graph.needs_.resize(nodes.size());
  graph.needed_by_.resize(nodes.size());
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    std::vector<std::string> all = nodes[i].needs;
    all.insert(all.end(), nodes[i].needs_all_hosts.begin(), nodes[i].needs_all_hosts.end());
    for (const std::string& id : all) {
      const auto found = positions.find(id);
      if (found == positions.end()) {
        std::vector<std::string> ids;
        for (const GraphNode& node : nodes) ids.push_back(node.id);
        const auto near = nearest(id, ids);
        return about(nodes[i].id, fmt::format("step '{}' needs '{}', which does not exist", nodes[i].id, id),
                     near ? fmt::format("did you mean '{}'?", *near) : "");
      }
      std::vector<std::size_t>& needs = graph.needs_[i];
      if (std::find(needs.begin(), needs.end(), found->second) != needs.end()) continue;
      needs.push_back(found->second);
      graph.needed_by_[found->second].push_back(i);
    }
  }
  if (const std::vector<std::size_t> cycle = find_cycle(graph.needs_); !cycle.empty()) {
    std::vector<std::string> ids;
    for (const std::size_t node : cycle) ids.push_back(nodes[node].id);
    return about(ids.front(), fmt::format("steps wait for each other: {}", join(ids, " -> ")),
                 "each needs the next one");
  }
  graph.nodes_ = std::move(nodes);
  graph.positions_ = std::move(positions);
  graph.order_ = topological(graph.needs_, graph.needed_by_);
  return graph;
}

std::optional<std::size_t> StepGraph::position(const std::string& id) const {
  const auto found = positions_.find(id);
  return found == positions_.end() ? std::nullopt : std::optional(found->second);
}

std::vector<std::size_t> StepGraph::ancestors(std::size_t node) const {
  const std::vector<bool> seen = reached(needs_, node);
  std::vector<std::size_t> out;
  for (auto i = order_.rbegin(); i != order_.rend(); ++i) {
    if (seen[*i] && *i != node) out.push_back(*i);
  }
  return out;
}

std::vector<std::size_t> StepGraph::dependents(std::size_t node) const {
  const std::vector<bool> seen = reached(needed_by_, node);
  std::vector<std::size_t> out;
  for (const std::size_t i : order_) {
    if (seen[i] && i != node) out.push_back(i);
  }
  return out;
}

std::vector<std::size_t> StepGraph::between(std::size_t from, std::size_t to) const {
  const std::vector<bool> after = reached(needed_by_, from);
  const std::vector<bool> before = reached(needs_, to);
  std::vector<std::size_t> out;
  for (const std::size_t i : order_) {
    if (after[i] && before[i]) out.push_back(i);
  }
  return out;
}

}  // namespace millwright
