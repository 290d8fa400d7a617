// The parsed form of an expression, and how it fails. Internal to playbook/.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "orchestrator/base/value.hpp"

namespace millwright {

enum class NodeKind {
  literal,      // value
  name,         // name
  attribute,    // child[0] . value (a string or an integer)
  index,        // child[0] [ child[1] ]
  list,         // children
  mapping,      // children: key, value, key, value...
  unary,        // name: - + not
  binary,       // name: + - * / // % **
  concat,       // children, joined as text
  compare,      // children a, b, c...; names: the operators between them
  logic_and,    // two children
  logic_or,     // two children
  conditional,  // then, condition, else (may be null)
  filter,       // name; child[0] the input, then arguments by parameter (may be null), or as given for map and select
  test,         // name; child[0] the input, then arguments
};

struct ExpressionNode {
  NodeKind kind = NodeKind::literal;
  std::size_t offset = 0;  // into the expression's text
  std::size_t length = 1;
  std::string name;
  Value value;
  std::vector<std::unique_ptr<ExpressionNode>> children;
  std::vector<std::string> names;  // compare: operators; map and select: keyword of each argument or ""
  std::size_t depth = 1;
};

using NodePtr = std::unique_ptr<ExpressionNode>;

// Deep recursion would end in a crash of the stack; nobody writes expressions this deep.
inline constexpr std::size_t kMaxExpressionDepth = 200;
// Everything that one evaluation may build, in bytes; stops 'a' * 10**9.
inline constexpr std::size_t kMaxResultSize = std::size_t{16} << 20;

// How parsing and evaluation unwind. Thrown inside playbook/ only; Expression turns it into an Error with a mark.
struct ExpressionProblem {
  std::string message;
  std::string hint;
  std::size_t offset = 0;
  std::size_t length = 1;
  bool placed = false;  // offset and length are set
};

[[noreturn]] inline void expression_problem(std::string message, std::string hint = "") {
  throw ExpressionProblem{std::move(message), std::move(hint), 0, 1, false};
}

}  // namespace millwright
