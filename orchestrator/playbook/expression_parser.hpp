// Tokens -> tree, by Jinja2's precedences (its parser.py). Internal to playbook/.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "orchestrator/playbook/expression_node.hpp"

namespace millwright {

// A constant path that the expression reads.
struct PathUse {
  std::vector<std::string> path;
  std::size_t offset = 0;
  std::size_t length = 1;
  bool guarded = false;  // under default, `is defined` or `is undefined`: may be undefined
};

// Throws ExpressionProblem.
NodePtr parse_expression_tree(std::string_view text);

// In the order of the text.
std::vector<PathUse> find_paths(const ExpressionNode& root);

}  // namespace millwright
