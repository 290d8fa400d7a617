// Evaluates a parsed expression. Internal to playbook/.
#pragma once

#include "orchestrator/playbook/expression_node.hpp"
#include "orchestrator/playbook/template.hpp"

namespace millwright {

// Throws ExpressionProblem, always placed.
Value evaluate_tree(const ExpressionNode& root, const Scope& scope);

}  // namespace millwright
