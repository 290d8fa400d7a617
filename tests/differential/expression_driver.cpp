// Reads lines of {"expression": "...", "scope": {...}}, writes a line of {"value": ...} or {"error": "..."} for each.
// expressions.py compares them with Jinja2's.
#include <cmath>
#include <iostream>
#include <string>

#include "orchestrator/playbook/template.hpp"

namespace {

using millwright::Value;

// JSON has no infinity and no NaN, and its readers may turn 1.0 into 1: floats travel as {"float": "text"}.
Value tagged(const Value& value) {
  if (value.is_number_float()) {
    const double number = value.get<double>();
    const std::string text = std::isnan(number)   ? "nan"
                             : std::isinf(number) ? (number > 0 ? "inf" : "-inf")
                                                  : value.dump();
    return Value{{"float", text}};
  }
  if (value.is_array()) {
    Value out = Value::array();
    for (const Value& item : value) out.push_back(tagged(item));
    return out;
  }
  if (value.is_object()) {
    Value entries = Value::object();
    for (const auto& [key, item] : value.items()) entries[key] = tagged(item);
    return Value{{"mapping", entries}};
  }
  return value;
}

Value answer(const Value& question) {
  const millwright::ObjectScope scope(question.at("scope"));
  const auto expression =
      millwright::Expression::parse(question.at("expression").get<std::string>(), {"expression", 1, 1, 1, ""});
  if (!expression) return Value{{"error", expression.error().message}};
  const auto value = expression->evaluate(scope);
  if (!value) return Value{{"error", value.error().message}};
  return Value{{"value", tagged(*value)}};
}

}  // namespace

int main() {
  std::ios::sync_with_stdio(false);
  std::string line;
  while (std::getline(std::cin, line)) std::cout << answer(Value::parse(line)).dump() << '\n';
  return std::cin.bad() ? 1 : 0;
}
