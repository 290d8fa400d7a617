// Tokens of an expression, by Jinja2's rules. Internal to playbook/.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "orchestrator/base/value.hpp"

namespace millwright {

enum class TokenKind { name, string, number, sign, end };

struct Token {
  TokenKind kind = TokenKind::end;
  std::string text;  // names and signs as written; strings decoded
  Value value;       // numbers
  std::size_t offset = 0;
  std::size_t length = 1;
};

// Throws ExpressionProblem.
std::vector<Token> tokenize(std::string_view text);

// One past the '}}' that ends the expression which starts at `from`, brackets and strings in it respected; where those
// are never closed, the first '}}' there is, so that the parser can say what is missing. npos: none.
std::size_t end_of_expression(std::string_view text, std::size_t from);

}  // namespace millwright
