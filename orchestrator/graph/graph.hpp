// The step graph: which step waits for which. Pure; knows neither hosts nor YAML.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "orchestrator/base/error.hpp"

namespace millwright {

struct GraphNode {
  std::string id;
  std::string label;  // second line in pictures: what it uses
  std::vector<std::string> needs;
  std::vector<std::string> needs_all_hosts;  // cross-host edges, drawn dashed
  std::string group;                         // drawn as a box around its nodes: the container they run in
  std::string state;  // ok | changed | failed | skipped | ...; empty: not run. Colours the picture.
};

// Positions of one cycle, its first node again at the end: each needs the next one. Empty when there is none.
std::vector<std::size_t> find_cycle(const std::vector<std::vector<std::size_t>>& needs);

class StepGraph {
 public:
  // Unknown needs, ids given twice and cycles are errors; a cycle is named in full: "a -> b -> a" (a needs b). The
  // error's detail is the id of the node it is about. Linear in nodes and edges; no recursion.
  static Result<StepGraph> build(std::vector<GraphNode> nodes);
  const std::vector<GraphNode>& nodes() const { return nodes_; }
  std::optional<std::size_t> position(const std::string& id) const;
  const std::vector<std::size_t>& order() const { return order_; }  // topological, ties in the order of the file
  const std::vector<std::size_t>& needs(std::size_t node) const { return needs_[node]; }  // also those on all hosts
  std::vector<std::size_t> ancestors(std::size_t node) const;   // transitive, the last in the order first
  std::vector<std::size_t> dependents(std::size_t node) const;  // transitive, in topological order
  std::vector<std::size_t> between(std::size_t from,
                                   std::size_t to) const;  // nodes on any path, both included, in order

  // Source for Graphviz and Mermaid. All texts are escaped; nodes are named by number, so that ids can be anything.
  std::string to_dot(const std::string& title) const;
  std::string to_mermaid(const std::string& title) const;

 private:
  std::vector<GraphNode> nodes_;
  std::unordered_map<std::string, std::size_t> positions_;
  std::vector<std::vector<std::size_t>> needs_, needed_by_;
  std::vector<std::size_t> order_;
};

}  // namespace millwright
