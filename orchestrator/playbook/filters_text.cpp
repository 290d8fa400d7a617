#include <fmt/format.h>

#include <algorithm>

#include "orchestrator/playbook/filter_parts.hpp"

namespace millwright {
namespace {

constexpr std::string_view kBlanks = " \t\n\r\f\v";

}  // namespace

Value filter_join(const Value& input, const FilterArguments& arguments, Budget& budget) {
  const std::string separator = arguments[0] == nullptr ? "" : python_str(*arguments[0]);
  std::string out;
  bool first = true;
  for (const Value& item : python_iterate(input)) {
    const std::string text = python_str(attribute_or_problem(item, arguments[1]));
    budget.charge(text.size() + separator.size());
    if (!first) out += separator;
    first = false;
    out += text;
  }
  return out;
}

Value filter_replace(const Value& input, const FilterArguments& arguments, Budget& budget) {
  const std::string text = python_str(input);
  const std::string from = python_str(*arguments[0]);
  const std::string to = python_str(*arguments[1]);
  std::int64_t left = -1;
  if (arguments[2] != nullptr && !arguments[2]->is_null()) {
    const auto count = as_integer(*arguments[2]);
    if (!count) expression_problem("'count' is not an integer");
    left = *count;
  }
  std::string out;
  const auto put = [&](std::string_view piece) {
    budget.charge(piece.size());
    out += piece;
  };
  if (from.empty()) {  // between all characters, as Python does
    for (const std::string& character : utf8_characters(text)) {
      if (left != 0) put(to), --left;
      put(character);
    }
    if (left != 0) put(to);
    return out;
  }
  std::size_t at = 0;
  for (std::size_t next = text.find(from); next != std::string::npos && left != 0; next = text.find(from, at), --left) {
    put(std::string_view(text).substr(at, next - at));
    put(to);
    at = next + from.size();
  }
  put(std::string_view(text).substr(at));
  return out;
}

// Python's str.split: without a separator, runs of blanks separate and none are at the ends.
Value filter_split(const Value& input, const FilterArguments& arguments, Budget& budget) {
  if (!input.is_string()) expression_problem(fmt::format("'split' needs a text, not {}", type_name(input)));
  budget.charge(input);
  std::string_view text = input.get_ref<const std::string&>();
  std::int64_t left = -1;
  if (arguments[1] != nullptr) {
    const auto count = as_integer(*arguments[1]);
    if (!count) expression_problem("'maxsplit' is not an integer");
    left = *count;
  }
  Value out = Value::array();
  if (arguments[0] != nullptr && !arguments[0]->is_null()) {
    if (!arguments[0]->is_string()) expression_problem("'sep' is not a text");
    const auto separator = arguments[0]->get<std::string>();
    if (separator.empty()) expression_problem("the separator is empty");
    for (std::size_t at = text.find(separator); at != std::string_view::npos && left != 0; at = text.find(separator)) {
      out.push_back(std::string(text.substr(0, at)));
      text.remove_prefix(at + separator.size());
      --left;
    }
    out.push_back(std::string(text));
    return out;
  }
  while (true) {
    text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
    if (text.empty()) return out;
    if (left == 0) {
      out.push_back(std::string(text.substr(0, text.find_last_not_of(kBlanks) + 1)));
      return out;
    }
    const std::size_t end = std::min(text.find_first_of(kBlanks), text.size());
    out.push_back(std::string(text.substr(0, end)));
    text.remove_prefix(end);
    --left;
  }
}

}  // namespace millwright
