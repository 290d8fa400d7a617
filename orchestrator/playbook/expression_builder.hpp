// Nodes of an expression's tree, made from tokens, with a limit on how deep it grows. Internal to playbook/.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "orchestrator/playbook/expression_cursor.hpp"
#include "orchestrator/playbook/expression_node.hpp"

namespace millwright {

class TreeBuilder : protected TokenCursor {
 protected:
  explicit TreeBuilder(std::string_view text) : TokenCursor(text) {}

  NodePtr make(NodeKind kind, const Token& token) const {
    auto node = std::make_unique<ExpressionNode>();
    node->kind = kind;
    node->offset = token.offset;
    node->length = token.length;
    return node;
  }
  void add(ExpressionNode& parent, NodePtr child) const {
    if (child) {
      parent.depth = std::max(parent.depth, child->depth + 1);
      if (parent.depth > kMaxExpressionDepth) too_deep();
    }
    parent.children.push_back(std::move(child));
  }
  [[noreturn]] void too_deep() const {
    problem(now(), fmt::format("too deep: more than {} operations inside one another", kMaxExpressionDepth));
  }

  // Counts what the parser itself nests: brackets, signs, not.
  class Level {
   public:
    explicit Level(TreeBuilder& parser) : parser_(parser) {
      if (++parser_.level_ > kMaxExpressionDepth) parser_.too_deep();
    }
    ~Level() { --parser_.level_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    TreeBuilder& parser_;
  };

 private:
  std::size_t level_ = 0;
};

}  // namespace millwright
