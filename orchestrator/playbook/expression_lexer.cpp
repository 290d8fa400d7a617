#include "orchestrator/playbook/expression_lexer.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>

#include "orchestrator/base/utf8.hpp"
#include "orchestrator/playbook/expression_node.hpp"

namespace millwright {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_name(char c) { return is_name_start(c) || is_digit(c); }

class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {}

  std::vector<Token> run() {
    std::vector<Token> tokens;
    while (true) {
      while (at_ < text_.size() && std::string_view(" \t\r\n\f\v").find(text_[at_]) != std::string_view::npos) ++at_;
      Token token = next(tokens);
      tokens.push_back(std::move(token));
      if (tokens.back().kind == TokenKind::end) return tokens;
    }
  }

 private:
  [[noreturn]] void problem(std::size_t from, std::string message, std::string hint = "") const {
    const std::size_t length = at_ > from ? at_ - from : 1;
    throw ExpressionProblem{std::move(message), std::move(hint), from, length, true};
  }

  Token next(const std::vector<Token>& before) {
    const std::size_t from = at_;
    Token token;
    token.offset = from;
    if (at_ >= text_.size()) return token;
    const char c = text_[at_];
    if (is_name_start(c)) {
      while (at_ < text_.size() && is_name(text_[at_])) ++at_;
      token.kind = TokenKind::name;
      token.text = std::string(text_.substr(from, at_ - from));
    } else if (is_digit(c)) {
      const bool after_dot = !before.empty() && before.back().kind == TokenKind::sign && before.back().text == ".";
      token.kind = TokenKind::number;
      token.value = after_dot ? integer(from) : number(from);
      token.text = std::string(text_.substr(from, at_ - from));
    } else if (c == '\'' || c == '"') {
      token.kind = TokenKind::string;
      token.text = string(from);
    } else {
      token.kind = TokenKind::sign;
      token.text = sign(from);
    }
    token.length = at_ - from;
    return token;
  }

  std::string sign(std::size_t from) {
    constexpr std::array<std::string_view, 8> two = {"**", "//", "==", "!=", "<=", ">=", "&&", "||"};
    for (const std::string_view candidate : two) {
      if (text_.substr(from, 2) != candidate) continue;
      at_ += 2;
      if (candidate == "&&") problem(from, "'&&' is no operator", "write 'and'");
      if (candidate == "||") problem(from, "'||' is no operator", "write 'or'");
      return std::string(candidate);
    }
    if (std::string_view("+-*/%~<>()[]{}.:,|=").find(text_[from]) == std::string_view::npos) {
      const bool bang = text_[from] == '!';
      problem(from, fmt::format("unexpected character '{}'", printable(text_[from])), bang ? "write 'not'" : "");
    }
    ++at_;
    return std::string(text_.substr(from, 1));
  }

  static std::string printable(char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte >= 0x20 && byte < 0x7F ? std::string(1, c) : fmt::format("\\x{:02x}", byte);
  }

  std::size_t digits() {
    const std::size_t from = at_;
    while (at_ < text_.size() && is_digit(text_[at_])) ++at_;
    return at_ - from;
  }

  Value integer(std::size_t from) {
    digits();
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text_.data() + from, text_.data() + at_, value);
    if (error != std::errc()) problem(from, "this integer is beyond 64 bits");
    return value;
  }

  Value based_integer(std::size_t from, int base) {
    at_ += 2;
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value, base);
    const auto stop = static_cast<std::size_t>(end - text_.data());
    if (error == std::errc::result_out_of_range) problem(from, "this integer is beyond 64 bits");
    if (error != std::errc() || stop == at_) problem(from, "this is no number");
    at_ = stop;
    if (at_ < text_.size() && is_name(text_[at_])) problem(from, "this is no number");
    return value;
  }

  Value number(std::size_t from) {
    const char second = from + 1 < text_.size() ? text_[from + 1] : '\0';
    if (text_[from] == '0' && (second == 'x' || second == 'X')) return based_integer(from, 16);
    if (text_[from] == '0' && (second == 'o' || second == 'O')) return based_integer(from, 8);
    if (text_[from] == '0' && (second == 'b' || second == 'B')) return based_integer(from, 2);
    digits();
    bool is_float = false;
    if (at_ + 1 < text_.size() && text_[at_] == '.' && is_digit(text_[at_ + 1])) {
      ++at_;
      digits();
      is_float = true;
    }
    if (at_ < text_.size() && (text_[at_] == 'e' || text_[at_] == 'E')) {
      const std::size_t mantissa = at_++;
      if (at_ < text_.size() && (text_[at_] == '+' || text_[at_] == '-')) ++at_;
      if (digits() == 0) {
        at_ = mantissa;
      } else {
        is_float = true;
      }
    }
    if (at_ < text_.size() && is_name(text_[at_])) {
      while (at_ < text_.size() && is_name(text_[at_])) ++at_;
      problem(from, "this is neither a number nor a name", "put text in quotes");
    }
    if (is_float) {
      double value = 0;
      const auto [end, error] = std::from_chars(text_.data() + from, text_.data() + at_, value);
      if (error != std::errc()) problem(from, "this number is too large or too small for a float");
      return value;
    }
    const std::string_view written = text_.substr(from, at_ - from);
    if (written[0] == '0' && written.find_first_not_of('0') != std::string_view::npos) {
      problem(from, "an integer cannot start with 0", "write 0o17 for an octal number, or put it in quotes");
    }
    at_ = from;
    return integer(from);
  }

  std::string string(std::size_t from) {
    const char quote = text_[at_++];
    std::string out;
    while (at_ < text_.size() && text_[at_] != quote) {
      if (text_[at_] != '\\') {
        out += text_[at_++];
      } else {
        escape(out);
      }
    }
    if (at_ >= text_.size()) {
      at_ = from + 1;
      problem(from, "this string is never closed");
    }
    ++at_;
    return out;
  }

  // Python's escapes, since Jinja2 has them: unknown ones stay as they are.
  void escape(std::string& out) {
    constexpr std::string_view from = "\\'\"abfnrtv";
    constexpr std::string_view to = "\\'\"\a\b\f\n\r\t\v";
    const std::size_t start = at_++;
    if (at_ >= text_.size()) return;
    const char c = text_[at_];
    if (const std::size_t simple = from.find(c); simple != std::string_view::npos) {
      out += to[simple];
      ++at_;
    } else if (c == '\n') {
      ++at_;
    } else if (c == 'x' || c == 'u' || c == 'U') {
      const std::size_t count = c == 'x' ? 2 : c == 'u' ? 4 : 8;
      ++at_;
      code_point(out, start, count, 16);
    } else if (c >= '0' && c <= '7') {
      std::size_t count = 1;
      while (count < 3 && at_ + count < text_.size() && text_[at_ + count] >= '0' && text_[at_ + count] <= '7') ++count;
      code_point(out, start, count, 8);
    } else if (c == 'N') {
      problem(start, "'\\N' escapes are not supported", "write the character itself");
    } else {
      out += '\\';
    }
  }

  void code_point(std::string& out, std::size_t start, std::size_t count, int base) {
    const std::string_view written = text_.substr(at_, count);
    unsigned long code = 0;
    const auto [end, error] = std::from_chars(written.data(), written.data() + written.size(), code, base);
    if (error != std::errc() || written.size() != count || end != written.data() + count || code > 0x10FFFF ||
        (code >= 0xD800 && code <= 0xDFFF)) {
      problem(start, "this escape names no character");
    }
    at_ += count;
    append_utf8(out, code);
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

std::vector<Token> tokenize(std::string_view text) { return Lexer(text).run(); }

std::size_t end_of_expression(std::string_view text, std::size_t from) {
  std::size_t open = 0;
  for (std::size_t at = from; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '\'' || c == '"') {
      for (++at; at < text.size() && text[at] != c; ++at) {
        if (text[at] == '\\') ++at;
      }
    } else if (c == '{' || c == '[' || c == '(') {
      ++open;
    } else if (c == '}' && open == 0) {
      if (text.substr(at, 2) == "}}") return at + 2;
    } else if ((c == '}' || c == ']' || c == ')') && open > 0) {
      --open;
    }
  }
  const std::size_t first = text.find("}}", from);
  return first == std::string_view::npos ? first : first + 2;
}

}  // namespace millwright
