#include "inventory/python_literal.hpp"

#include <cctype>
#include <charconv>
#include <string>

#include "orchestrator/base/utf8.hpp"

namespace millwright {
namespace {

constexpr int kMaxDepth = 100;

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  std::optional<Value> whole() {
    skip_blanks();
    std::optional<Value> value = expression(0);
    if (!value) return std::nullopt;
    skip_blanks();
    if (peek() == ',') {  // "1, 2" is a tuple also without parentheses
      Value list = Value::array({*value});
      while (peek() == ',') {
        ++at_;
        skip_blanks();
        if (done()) break;
        const std::optional<Value> next = expression(0);
        if (!next) return std::nullopt;
        list.push_back(*next);
        skip_blanks();
      }
      value = list;
    }
    return done() ? value : std::nullopt;
  }

 private:
  bool done() const { return at_ >= text_.size(); }
  char peek(std::size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }
  void skip_blanks() {
    while (peek() == ' ' || peek() == '\t') ++at_;
    if (peek() == '#') at_ = text_.size();
  }
  bool word(std::string_view expected) {
    if (text_.substr(at_, expected.size()) != expected) return false;
    const char after = peek(expected.size());
    if (std::isalnum(static_cast<unsigned char>(after)) || after == '_') return false;
    at_ += expected.size();
    return true;
  }

  std::optional<Value> expression(int depth) {
    if (depth > kMaxDepth) return std::nullopt;
    skip_blanks();
    const char c = peek();
    if (c == '[') return sequence(depth, ']', false);
    if (c == '(') return sequence(depth, ')', true);
    if (c == '{') return braces(depth);
    if (word("True")) return Value(true);
    if (word("False")) return Value(false);
    if (word("None")) return Value(nullptr);
    if (c == '+' || c == '-') return signed_number();
    if (std::isdigit(static_cast<unsigned char>(c)) || c == '.') return number();
    return strings();
  }

  // ast.literal_eval takes any number of signs before a number, and blanks between them.
  std::optional<Value> signed_number() {
    bool negative = false;
    while (peek() == '+' || peek() == '-') {
      if (peek() == '-') negative = !negative;
      ++at_;
      skip_blanks();
      if (peek() == '+' || peek() == '-') return std::nullopt;
    }
    if (!std::isdigit(static_cast<unsigned char>(peek())) && peek() != '.') return std::nullopt;
    const std::optional<Value> value = number();
    if (!value || !negative) return value;
    if (value->is_number_float()) return Value(-value->get<double>());
    return Value(-value->get<std::int64_t>());
  }

  static std::optional<std::string> without_underscores(std::string_view digits) {
    std::string out;
    for (std::size_t i = 0; i < digits.size(); ++i) {
      if (digits[i] != '_') {
        out += digits[i];
      } else if (i == 0 || i + 1 == digits.size() || digits[i - 1] == '_' || digits[i + 1] == '.' ||
                 digits[i - 1] == '.') {
        return std::nullopt;
      }
    }
    return out;
  }

  std::optional<Value> number() {
    const std::size_t from = at_;
    const auto is_part = [&](char c) {
      const bool exponent_sign = (c == '+' || c == '-') && at_ > from &&
                                 (text_[at_ - 1] == 'e' || text_[at_ - 1] == 'E') && peek(1) != '\0' &&
                                 text_.substr(from, 2) != "0x" && text_.substr(from, 2) != "0X";
      return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || exponent_sign;
    };
    while (!done() && is_part(peek())) ++at_;
    const std::optional<std::string> digits = without_underscores(text_.substr(from, at_ - from));
    if (!digits) return std::nullopt;
    return decimal_or_based(*digits);
  }

  static std::optional<Value> decimal_or_based(const std::string& digits) {
    int base = 10;
    std::size_t skip = 0;
    if (digits.size() > 2 && digits[0] == '0' && std::isalpha(static_cast<unsigned char>(digits[1]))) {
      const char mark = static_cast<char>(std::tolower(static_cast<unsigned char>(digits[1])));
      base = mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 10;
      skip = base == 10 ? 0 : 2;
    }
    const char* first = digits.data() + skip;
    const char* last = digits.data() + digits.size();
    std::int64_t integer = 0;
    const auto parsed = std::from_chars(first, last, integer, base);
    if (parsed.ec == std::errc() && parsed.ptr == last) {
      // Python refuses 0644: what looks octal stays a string.
      if (base == 10 && digits.size() > 1 && digits[0] == '0' && integer != 0) return std::nullopt;
      return Value(integer);
    }
    if (base != 10 || digits.find_first_of(".eE") == std::string::npos) return std::nullopt;
    double real = 0;
    const auto as_real = std::from_chars(digits.data(), last, real);
    if (as_real.ec != std::errc() || as_real.ptr != last) return std::nullopt;
    return Value(real);
  }

  // Neighbouring strings are one: 'a' "b" is "ab".
  std::optional<Value> strings() {
    std::string all;
    bool any = false;
    while (true) {
      const std::size_t before = at_;
      bool raw = false;
      std::string_view prefix;
      for (std::string_view candidate : {"rb", "br", "r", "u", "b"}) {
        std::string head(text_.substr(at_, candidate.size()));
        for (char& c : head) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
        if (head == candidate && (peek(candidate.size()) == '\'' || peek(candidate.size()) == '"')) {
          prefix = candidate;
          break;
        }
      }
      raw = prefix.find('r') != std::string_view::npos;
      at_ += prefix.size();
      if (peek() != '\'' && peek() != '"') {
        at_ = before;
        break;
      }
      if (!quoted(all, raw)) return std::nullopt;
      any = true;
      skip_blanks();
    }
    if (!any) return std::nullopt;
    return Value(all);
  }

  bool quoted(std::string& out, bool raw) {
    const char quote = peek();
    const bool triple = peek(1) == quote && peek(2) == quote;
    at_ += triple ? 3 : 1;
    while (!done()) {
      const char c = peek();
      if (c == quote && (!triple || (peek(1) == quote && peek(2) == quote))) {
        at_ += triple ? 3 : 1;
        return true;
      }
      ++at_;
      if (c != '\\') {
        out += c;
      } else if (done()) {
        return false;
      } else if (raw) {
        out += c;
        out += text_[at_++];
      } else if (!escape(out)) {
        return false;
      }
    }
    return false;
  }

  bool escape(std::string& out) {
    const char c = text_[at_++];
    constexpr std::string_view plain = "\\'\"abfnrtv";
    constexpr std::string_view means = "\\'\"\a\b\f\n\r\t\v";
    if (const std::size_t i = plain.find(c); i != std::string_view::npos) {
      out += means[i];
      return true;
    }
    const std::size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (digits != 0) {
      unsigned long code = 0;
      const char* first = text_.data() + at_;
      const auto parsed = std::from_chars(first, first + std::min(digits, text_.size() - at_), code, 16);
      if (parsed.ec != std::errc() || parsed.ptr != first + digits || code > 0x10FFFF) return false;
      append_utf8(out, code);
      at_ += digits;
      return true;
    }
    if (c >= '0' && c <= '7') {
      unsigned long code = static_cast<unsigned long>(c - '0');
      for (int i = 0; i < 2 && peek() >= '0' && peek() <= '7'; ++i) {
        code = code * 8 + static_cast<unsigned long>(text_[at_++] - '0');
      }
      append_utf8(out, code);
      return true;
    }
    if (c == 'N') return false;  // \N{NAME} would need Unicode's table of names
    out += '\\';                 // an unknown escape keeps its backslash
    out += c;
    return true;
  }

  std::optional<Value> sequence(int depth, char close, bool parentheses) {
    ++at_;
    Value list = Value::array();
    bool comma = false;
    while (true) {
      skip_blanks();
      if (peek() == close) break;
      if (!list.empty() && !comma) return std::nullopt;
      const std::optional<Value> item = expression(depth + 1);
      if (!item) return std::nullopt;
      list.push_back(*item);
      skip_blanks();
      comma = peek() == ',';
      if (comma) ++at_;
    }
    ++at_;
    if (parentheses && list.size() == 1 && !comma) return list[0];
    return list;
  }

  std::optional<Value> braces(int depth) {
    ++at_;
    Value object = Value::object();
    Value set = Value::array();
    bool comma = true;
    while (true) {
      skip_blanks();
      if (peek() == '}') break;
      if (!comma) return std::nullopt;
      const std::optional<Value> key = expression(depth + 1);
      if (!key) return std::nullopt;
      skip_blanks();
      if (peek() == ':') {
        ++at_;
        const std::optional<Value> item = expression(depth + 1);
        if (!item || !set.empty() || key->is_structured()) return std::nullopt;
        object[key->is_string() ? key->get<std::string>() : key->dump()] = *item;
      } else {
        if (!object.empty() || key->is_structured()) return std::nullopt;
        set.push_back(*key);
      }
      skip_blanks();
      comma = peek() == ',';
      if (comma) ++at_;
    }
    ++at_;
    return set.empty() ? object : set;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

std::optional<Value> python_literal(std::string_view text) { return Parser(text).whole(); }

Value ini_value(std::string_view text) {
  if (const std::optional<Value> literal = python_literal(text)) return *literal;
  return std::string(text);
}

}  // namespace millwright
