// Where a parser stands in the tokens of an expression. Internal to playbook/. Not for concurrent use.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "orchestrator/playbook/expression_lexer.hpp"
#include "orchestrator/playbook/expression_node.hpp"

namespace millwright {

// The last token is TokenKind::end and is never passed: looking further shows it again.
class TokenCursor {
 public:
  explicit TokenCursor(std::string_view text) : tokens_(tokenize(text)) {}

  const Token& now() const { return tokens_[at_]; }
  const Token& ahead() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  const Token& last() const { return tokens_[at_ - 1]; }  // the one just taken
  const Token& take() { return tokens_[at_ + 1 < tokens_.size() ? at_++ : at_]; }
  bool is_sign(std::string_view text) const { return now().kind == TokenKind::sign && now().text == text; }
  bool is_word(std::string_view text) const { return now().kind == TokenKind::name && now().text == text; }
  bool skip_sign(std::string_view text) { return is_sign(text) && (take(), true); }
  bool skip_word(std::string_view text) { return is_word(text) && (take(), true); }

  // These throw ExpressionProblem, placed at the token.
  [[noreturn]] static void problem(const Token& token, std::string message, std::string hint = "") {
    throw ExpressionProblem{std::move(message), std::move(hint), token.offset, token.length, true};
  }
  [[noreturn]] void unexpected() const {
    const Token& token = now();
    if (token.kind == TokenKind::end) problem(token, "the expression ends too early");
    const char* hint = token.text == "=" ? "compare with '=='" : "";
    problem(token, fmt::format("'{}' does not fit here", token.kind == TokenKind::string ? "a string" : token.text),
            hint);
  }
  void expect(std::string_view sign) {
    if (skip_sign(sign)) return;
    const Token& token = now();
    problem(token, token.kind == TokenKind::end ? fmt::format("'{}' is missing at the end", sign)
                                                : fmt::format("expected '{}' before '{}'", sign, token.text));
  }

  // Problems of `work` that say no place are at the token.
  template <class Work>
  static void place_problems(const Token& token, Work work) {
    try {
      work();
    } catch (ExpressionProblem& found) {
      if (!found.placed) {
        found.offset = token.offset;
        found.length = token.length;
        found.placed = true;
      }
      throw;
    }
  }

 private:
  std::vector<Token> tokens_;
  std::size_t at_ = 0;
};

}  // namespace millwright
