#include "orchestrator/playbook/python_like.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "orchestrator/base/value_size.hpp"
#include "orchestrator/playbook/expression_node.hpp"

namespace millwright {
namespace {

bool is_number(const Value& value) { return value.is_number() || value.is_boolean(); }

// -1, 0, 1; nothing for NaN. Exact also where a double cannot hold the integer.
std::optional<int> compare_mixed(std::int64_t integer, double number) {
  if (std::isnan(number)) return {};
  if (number >= 9223372036854775808.0) return -1;
  if (number < -9223372036854775808.0) return 1;
  const auto whole = static_cast<std::int64_t>(number);
  if (integer != whole) return integer < whole ? -1 : 1;
  const double rest = number - std::trunc(number);
  return rest > 0 ? -1 : rest < 0 ? 1 : 0;
}

std::optional<int> compare_numbers(const Value& a, const Value& b) {
  const auto left = as_integer(a);
  const auto right = as_integer(b);
  if (left && right) return *left < *right ? -1 : *left > *right ? 1 : 0;
  if (left) return compare_mixed(*left, b.get<double>());
  if (right) {
    const auto order = compare_mixed(*right, a.get<double>());
    if (!order) return {};
    return -*order;
  }
  const double x = a.get<double>();
  const double y = b.get<double>();
  if (std::isnan(x) || std::isnan(y)) return {};
  return x < y ? -1 : x > y ? 1 : 0;
}

std::string python_repr_text(const std::string& text) {
  const char quote = text.find('\'') != std::string::npos && text.find('"') == std::string::npos ? '"' : '\'';
  std::string out(1, quote);
  for (const char c : text) {
    if (c == '\\' || c == quote) {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\r') {
      out += "\\r";
    } else if (c == '\t') {
      out += "\\t";
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      out += c;
    }
  }
  return out + quote;
}

// Python's repr: the shortest digits that read back, with an exponent below 1e-4 and from 1e16 on.
std::string python_float(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number > 0 ? "inf" : "-inf";
  char buffer[64];
  const double size = std::fabs(number);
  const bool scientific = size != 0 && (size < 1e-4 || size >= 1e16);
  const auto format = scientific ? std::chars_format::scientific : std::chars_format::fixed;
  const auto result = std::to_chars(buffer, buffer + sizeof buffer, number, format);
  std::string out(buffer, result.ptr);
  if (!scientific && out.find('.') == std::string::npos) out += ".0";
  return out;
}

std::string python_repr(const Value& value) {
  return value.is_string() ? python_repr_text(value.get_ref<const std::string&>()) : python_str(value);
}

[[noreturn]] void unsupported(std::string_view op, const Value& a, const Value& b) {
  expression_problem(fmt::format("'{}' cannot be used on {} and {}", op, type_name(a), type_name(b)),
                     op == "+" && (a.is_string() || b.is_string()) ? "'~' joins values as text" : "");
}

[[noreturn]] void beyond() { expression_problem("the result is an integer beyond 64 bits"); }

Value integer_power(std::int64_t base, std::int64_t exponent) {
  if (exponent < 0) {
    if (base == 0) expression_problem("division by zero");
    return std::pow(static_cast<double>(base), static_cast<double>(exponent));
  }
  if (base == 0 || base == 1) return exponent == 0 ? 1 : base;
  if (base == -1) return exponent % 2 == 0 ? 1 : -1;
  std::int64_t out = 1;
  for (std::int64_t i = 0; i < exponent; ++i) {
    if (__builtin_mul_overflow(out, base, &out)) beyond();  // at most 63 rounds, since |base| >= 2
  }
  return out;
}

Value integer_binary(std::string_view op, std::int64_t a, std::int64_t b) {
  std::int64_t out = 0;
  if (op == "+" && !__builtin_add_overflow(a, b, &out)) return out;
  if (op == "-" && !__builtin_sub_overflow(a, b, &out)) return out;
  if (op == "*" && !__builtin_mul_overflow(a, b, &out)) return out;
  if (op == "**") return integer_power(a, b);
  if (op == "+" || op == "-" || op == "*") beyond();
  if (b == 0) expression_problem("division by zero");
  // long double holds every 64-bit integer, so that the quotient is rounded once more only.
  if (op == "/") return static_cast<double>(static_cast<long double>(a) / static_cast<long double>(b));
  if (b == -1) {
    if (op == "%") return 0;
    if (a == std::numeric_limits<std::int64_t>::min()) beyond();
    return -a;
  }
  std::int64_t quotient = a / b;
  std::int64_t rest = a % b;
  if (rest != 0 && (rest < 0) != (b < 0)) {
    --quotient;
    rest += b;
  }
  return op == "//" ? quotient : rest;
}

Value float_power(double a, double b) {
  if (a == 0 && b < 0) expression_problem("division by zero");
  if (a < 0 && std::isfinite(a) && std::isfinite(b) && b != std::floor(b)) {
    expression_problem("a negative number to a fractional power is no real number");
  }
  const double out = std::pow(a, b);
  if (std::isinf(out) && std::isfinite(a) && std::isfinite(b))
    expression_problem("the result is too large for a float");
  return out;
}

// As CPython's float_divmod: the remainder has the sign of the divisor.
Value float_divide(std::string_view op, double a, double b) {
  if (b == 0) expression_problem("division by zero");
  if (op == "/") return a / b;
  double rest = std::fmod(a, b);
  double quotient = (a - rest) / b;
  if (rest != 0) {
    if ((b < 0) != (rest < 0)) {
      rest += b;
      quotient -= 1.0;
    }
  } else {
    rest = std::copysign(0.0, b);
  }
  if (op == "%") return rest;
  if (quotient == 0) return std::copysign(0.0, a / b);
  double whole = std::floor(quotient);
  if (quotient - whole > 0.5) whole += 1.0;
  return whole;
}

Value float_binary(std::string_view op, double a, double b) {
  if (op == "+") return a + b;
  if (op == "-") return a - b;
  if (op == "*") return a * b;
  if (op == "**") return float_power(a, b);
  return float_divide(op, a, b);
}

Value repeat(const Value& what, std::int64_t times, Budget& budget) {
  if (times <= 0) return what.is_string() ? Value("") : Value::array();
  const std::size_t one = value_size(what);
  if (static_cast<std::size_t>(times) > kMaxResultSize / one) budget.charge(kMaxResultSize + 1);
  budget.charge(one * static_cast<std::size_t>(times));
  if (what.is_string()) {
    const auto& text = what.get_ref<const std::string&>();
    std::string out;
    out.reserve(text.size() * static_cast<std::size_t>(times));
    for (std::int64_t i = 0; i < times && !text.empty(); ++i) out += text;
    return out;
  }
  Value out = Value::array();
  for (std::int64_t i = 0; i < times && !what.empty(); ++i) out.insert(out.end(), what.begin(), what.end());
  return out;
}

}  // namespace

void Budget::charge(std::size_t size) {
  if (size > kMaxResultSize - std::min(used_, kMaxResultSize)) {
    expression_problem(fmt::format("the result is too large: more than {} MiB", kMaxResultSize >> 20));
  }
  used_ += size;
}

void Budget::charge(const Value& value) { charge(value_size(value)); }

std::string_view type_name(const Value& value) {
  if (value.is_null()) return "none";
  if (value.is_boolean()) return "a boolean";
  if (value.is_number_integer()) return "an integer";
  if (value.is_number()) return "a number";
  if (value.is_string()) return "a text";
  if (value.is_array()) return "a list";
  return "a mapping";
}

std::optional<std::int64_t> as_integer(const Value& value) {
  if (value.is_boolean()) return value.get<bool>() ? 1 : 0;
  if (value.is_number_unsigned() &&
      value.get<std::uint64_t>() > std::uint64_t{std::numeric_limits<std::int64_t>::max()}) {
    beyond();
  }
  if (value.is_number_integer()) return value.get<std::int64_t>();
  return {};
}

std::optional<double> as_number(const Value& value) {
  if (const auto integer = as_integer(value)) return static_cast<double>(*integer);
  if (value.is_number_float()) return value.get<double>();
  return {};
}

bool truthy_value(const Value& value) {
  if (value.is_null()) return false;
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number_float()) return value.get<double>() != 0;
  if (value.is_number()) return value != 0;
  return value.is_string() ? !value.get_ref<const std::string&>().empty() : !value.empty();
}

bool python_equal(const Value& a, const Value& b) {
  if (is_number(a) && is_number(b)) return compare_numbers(a, b) == 0;
  if (a.type() != b.type()) return false;
  if (a.is_array()) {
    return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), python_equal);
  }
  if (a.is_object()) {
    if (a.size() != b.size()) return false;
    for (auto x = a.begin(), y = b.begin(); x != a.end(); ++x, ++y) {
      if (x.key() != y.key() || !python_equal(x.value(), y.value())) return false;
    }
    return true;
  }
  return a == b;
}

bool python_less(const Value& a, const Value& b) {
  if (is_number(a) && is_number(b)) return compare_numbers(a, b) == -1;
  if (a.is_string() && b.is_string()) return a.get_ref<const std::string&>() < b.get_ref<const std::string&>();
  if (a.is_array() && b.is_array()) {
    for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
      if (!python_equal(a[i], b[i])) return python_less(a[i], b[i]);
    }
    return a.size() < b.size();
  }
  unsupported("<", a, b);
}

bool python_contains(const Value& container, const Value& item) {
  if (container.is_string()) {
    if (!item.is_string()) unsupported("in", item, container);
    return container.get_ref<const std::string&>().find(item.get_ref<const std::string&>()) != std::string::npos;
  }
  if (container.is_array()) {
    return std::any_of(container.begin(), container.end(), [&](const Value& each) { return python_equal(each, item); });
  }
  if (container.is_object()) {
    if (item.is_array() || item.is_object()) unsupported("in", item, container);
    return item.is_string() && container.contains(item.get_ref<const std::string&>());
  }
  unsupported("in", item, container);
}

std::string python_str(const Value& value) {
  if (value.is_null()) return "None";
  if (value.is_boolean()) return value.get<bool>() ? "True" : "False";
  if (value.is_number_float()) return python_float(value.get<double>());
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number()) return value.dump();
  std::string out = value.is_array() ? "[" : "{";
  bool first = true;
  for (const auto& [key, item] : value.items()) {
    if (!first) out += ", ";
    first = false;
    if (value.is_object()) out += python_repr_text(key) + ": ";
    out += python_repr(item);
  }
  return out + (value.is_array() ? "]" : "}");
}

std::vector<std::string> utf8_characters(std::string_view text) {
  std::vector<std::string> out;
  for (const char c : text) {
    if (out.empty() || (static_cast<unsigned char>(c) & 0xC0) != 0x80) out.emplace_back();
    out.back() += c;
  }
  return out;
}

std::vector<Value> python_iterate(const Value& value) {
  std::vector<Value> out;
  if (value.is_array()) {
    out.assign(value.begin(), value.end());
  } else if (value.is_object()) {
    for (const auto& [key, item] : value.items()) out.emplace_back(key);
  } else if (value.is_string()) {
    for (std::string& character : utf8_characters(value.get_ref<const std::string&>())) {
      out.emplace_back(std::move(character));
    }
  } else {
    expression_problem(fmt::format("{} has no items", type_name(value)));
  }
  return out;
}

Value python_binary(std::string_view op, const Value& a, const Value& b, Budget& budget) {
  if (is_number(a) && is_number(b)) {
    const auto left = as_integer(a);
    const auto right = as_integer(b);
    return left && right ? integer_binary(op, *left, *right) : float_binary(op, *as_number(a), *as_number(b));
  }
  if (op == "+" && a.is_string() && b.is_string()) {
    budget.charge(value_size(a) + value_size(b));
    return a.get_ref<const std::string&>() + b.get_ref<const std::string&>();
  }
  if (op == "+" && a.is_array() && b.is_array()) {
    budget.charge(value_size(a) + value_size(b));
    Value out = a;
    out.insert(out.end(), b.begin(), b.end());
    return out;
  }
  if (op == "*") {
    const auto sequence = [](const Value& value) { return value.is_string() || value.is_array(); };
    const auto count = [](const Value& value) { return value.is_number_integer() || value.is_boolean(); };
    if (sequence(a) && count(b)) return repeat(a, *as_integer(b), budget);
    if (count(a) && sequence(b)) return repeat(b, *as_integer(a), budget);
  }
  unsupported(op, a, b);
}

Value python_negate(const Value& value) {
  if (const auto integer = as_integer(value)) {
    if (*integer == std::numeric_limits<std::int64_t>::min()) beyond();
    return -*integer;
  }
  if (value.is_number_float()) return -value.get<double>();
  expression_problem(fmt::format("'-' cannot be used on {}", type_name(value)));
}

Value python_plus(const Value& value) {
  if (const auto integer = as_integer(value)) return *integer;
  if (value.is_number_float()) return value;
  expression_problem(fmt::format("'+' cannot be used on {}", type_name(value)));
}

}  // namespace millwright
