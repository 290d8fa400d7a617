#include <algorithm>

#include "orchestrator/playbook/expression_parser.hpp"

namespace millwright {
namespace {

// The whole path when the node is a name with constant keys behind it.
bool constant_path(const ExpressionNode& node, std::vector<std::string>& path) {
  if (node.kind == NodeKind::name) {
    path.push_back(node.name);
    return true;
  }
  if (node.kind != NodeKind::attribute || !constant_path(*node.children[0], path)) return false;
  path.push_back(node.value.is_string() ? node.value.get<std::string>() : node.value.dump());
  return true;
}

void collect(const ExpressionNode& node, bool guarded, std::vector<PathUse>& out) {
  std::vector<std::string> path;
  if (constant_path(node, path)) {
    out.push_back({std::move(path), node.offset, node.length, guarded});
    return;
  }
  const bool guards = (node.kind == NodeKind::filter && (node.name == "default" || node.name == "d")) ||
                      (node.kind == NodeKind::test && (node.name == "defined" || node.name == "undefined"));
  for (std::size_t i = 0; i < node.children.size(); ++i) {
    if (node.children[i]) collect(*node.children[i], guards && i == 0, out);
  }
}

}  // namespace

std::vector<PathUse> find_paths(const ExpressionNode& root) {
  std::vector<PathUse> out;
  collect(root, false, out);
  // `x.y if x.y is defined else z`: what is tested somewhere in the expression may be undefined all over it.
  for (PathUse& use : out) {
    use.guarded = use.guarded || std::any_of(out.begin(), out.end(), [&](const PathUse& other) {
                    return other.guarded && other.path == use.path;
                  });
  }
  std::stable_sort(out.begin(), out.end(), [](const PathUse& a, const PathUse& b) { return a.offset < b.offset; });
  return out;
}

}  // namespace millwright
