#include <charconv>
#include <cmath>
#include <utility>

#include "orchestrator/base/text.hpp"
#include "orchestrator/playbook/filter_parts.hpp"

namespace millwright {
namespace {

std::optional<double> float_of_text(std::string_view text) {
  text = trim(text);
  std::string lower = lower_text(std::string(text));
  const bool minus = !lower.empty() && lower[0] == '-';
  if (!lower.empty() && (lower[0] == '-' || lower[0] == '+')) lower.erase(0, 1);
  if (lower == "inf" || lower == "infinity") return minus ? -HUGE_VAL : HUGE_VAL;
  if (lower == "nan") return std::nan("");
  if (lower.empty() || lower.find_first_not_of("0123456789.e+-") != std::string::npos || lower[0] == '-') return {};
  double value = 0;
  const auto [end, error] = std::from_chars(lower.data(), lower.data() + lower.size(), value);
  if (end != lower.data() + lower.size()) return {};
  if (error == std::errc::result_out_of_range) value = lower.find("e-") != std::string::npos ? 0.0 : HUGE_VAL;
  return minus ? -value : value;
}

std::optional<std::int64_t> integer_of_text(std::string_view text, std::int64_t base) {
  text = trim(text);
  const bool minus = !text.empty() && text[0] == '-';
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) text.remove_prefix(1);
  const std::string prefix = lower_text(std::string(text.substr(0, 2)));
  for (const auto& [sign, prefix_base] : {std::pair{"0x", 16}, std::pair{"0o", 8}, std::pair{"0b", 2}}) {
    if (prefix == sign && (base == prefix_base || base == 0)) {
      text.remove_prefix(2);
      base = prefix_base;
    }
  }
  if (base == 0) base = 10;
  if (text.empty() || text[0] == '-' || text[0] == '+') return {};
  const std::string digits = (minus ? "-" : "") + std::string(text);
  std::int64_t value = 0;
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), value, static_cast<int>(base));
  if (end != digits.data() + digits.size()) return {};
  if (error == std::errc::result_out_of_range) expression_problem("this integer is beyond 64 bits");
  return value;
}

std::int64_t whole_part(double number) {
  if (std::isinf(number) || std::fabs(number) >= 9223372036854775808.0) {
    expression_problem("this integer is beyond 64 bits");
  }
  return static_cast<std::int64_t>(number);
}

}  // namespace

Value filter_int(const Value& input, const FilterArguments& arguments, Budget&) {
  const Value otherwise = arguments[0] == nullptr ? Value(0) : *arguments[0];
  const auto base = arguments[1] == nullptr ? std::optional<std::int64_t>(10) : as_integer(*arguments[1]);
  if (!base || *base < 0 || *base == 1 || *base > 36) expression_problem("'base' is not an integer from 2 to 36");
  if (const auto integer = as_integer(input)) return *integer;
  std::optional<double> number;
  if (input.is_string()) {
    const std::string& text = input.get_ref<const std::string&>();
    if (const auto integer = integer_of_text(text, *base)) return *integer;
    number = float_of_text(text);
  } else if (input.is_number_float()) {
    number = input.get<double>();
  }
  if (!number || std::isnan(*number)) return otherwise;
  return whole_part(*number);
}

Value filter_float(const Value& input, const FilterArguments& arguments, Budget&) {
  if (const auto number = as_number(input)) return *number;
  if (input.is_string()) {
    if (const auto number = float_of_text(input.get_ref<const std::string&>())) return *number;
  }
  return arguments[0] == nullptr ? Value(0.0) : *arguments[0];
}

}  // namespace millwright
