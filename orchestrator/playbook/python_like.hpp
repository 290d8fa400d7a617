// Values as Python's operators treat them, because Jinja2's users know those. Internal to playbook/.
// Everything here throws ExpressionProblem where Python raises, and on integers beyond 64 bits.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "orchestrator/base/value.hpp"

namespace millwright {

// What one evaluation may build; see kMaxResultSize.
class Budget {
 public:
  void charge(std::size_t size);
  void charge(const Value& value);  // its bytes and elements

 private:
  std::size_t used_ = 0;
};

std::string_view type_name(const Value& value);  // "null", "boolean", "integer", "number", "text", "list", "mapping"

std::optional<std::int64_t> as_integer(const Value& value);  // booleans count, as in Python
std::optional<double> as_number(const Value& value);

bool truthy_value(const Value& value);
bool python_equal(const Value& a, const Value& b);
bool python_less(const Value& a, const Value& b);
bool python_contains(const Value& container, const Value& item);
std::string python_str(const Value& value);
// List: its items; mapping: its keys; text: its characters. Anything else is a problem.
std::vector<Value> python_iterate(const Value& value);

Value python_binary(std::string_view op, const Value& a, const Value& b, Budget& budget);
Value python_negate(const Value& value);
Value python_plus(const Value& value);

std::vector<std::string> utf8_characters(std::string_view text);

}  // namespace millwright
