#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "orchestrator/base/text.hpp"
#include "orchestrator/playbook/filters.hpp"

namespace millwright {
namespace {

struct TestSpec {
  std::string_view name;
  std::size_t arguments;
  bool (*apply)(const Value& value, const std::vector<Value>& arguments);
};

bool is_remainder(const Value& value, std::int64_t divisor, std::int64_t rest) {
  Budget budget;
  return python_equal(python_binary("%", value, divisor, budget), rest);
}

// Python's islower and isupper over ASCII: at least one letter, and none of the other case.
bool has_case(const Value& value, char first, char last, char other_first, char other_last) {
  const std::string text = python_str(value);
  const auto within = [&](char from, char to) {
    return std::any_of(text.begin(), text.end(), [&](char c) { return c >= from && c <= to; });
  };
  return within(first, last) && !within(other_first, other_last);
}

using Arguments = std::vector<Value>;

bool equal(const Value& v, const Arguments& a) { return python_equal(v, a[0]); }
bool unequal(const Value& v, const Arguments& a) { return !python_equal(v, a[0]); }
bool less(const Value& v, const Arguments& a) { return python_less(v, a[0]); }
bool greater(const Value& v, const Arguments& a) { return python_less(a[0], v); }
bool less_or_equal(const Value& v, const Arguments& a) { return python_less(v, a[0]) || python_equal(v, a[0]); }
bool greater_or_equal(const Value& v, const Arguments& a) { return python_less(a[0], v) || python_equal(v, a[0]); }

const std::array kTests = {
    TestSpec{"boolean", 0, [](const Value& v, const Arguments&) { return v.is_boolean(); }},
    TestSpec{"defined", 0, [](const Value&, const Arguments&) { return true; }},
    TestSpec{"divisibleby", 1,
             [](const Value& v, const Arguments& a) {
               Budget budget;
               return python_equal(python_binary("%", v, a[0], budget), 0);
             }},
    TestSpec{"eq", 1, equal},
    TestSpec{"equalto", 1, equal},
    TestSpec{"even", 0, [](const Value& v, const Arguments&) { return is_remainder(v, 2, 0); }},
    TestSpec{"false", 0, [](const Value& v, const Arguments&) { return v.is_boolean() && !v.get<bool>(); }},
    TestSpec{"float", 0, [](const Value& v, const Arguments&) { return v.is_number_float(); }},
    TestSpec{"ge", 1, greater_or_equal},
    TestSpec{"greaterthan", 1, greater},
    TestSpec{"gt", 1, greater},
    TestSpec{"in", 1, [](const Value& v, const Arguments& a) { return python_contains(a[0], v); }},
    TestSpec{"integer", 0, [](const Value& v, const Arguments&) { return v.is_number_integer(); }},
    TestSpec{"iterable", 0,
             [](const Value& v, const Arguments&) { return v.is_string() || v.is_array() || v.is_object(); }},
    TestSpec{"le", 1, less_or_equal},
    TestSpec{"lessthan", 1, less},
    TestSpec{"lower", 0, [](const Value& v, const Arguments&) { return has_case(v, 'a', 'z', 'A', 'Z'); }},
    TestSpec{"lt", 1, less},
    TestSpec{"mapping", 0, [](const Value& v, const Arguments&) { return v.is_object(); }},
    TestSpec{"ne", 1, unequal},
    TestSpec{"none", 0, [](const Value& v, const Arguments&) { return v.is_null(); }},
    TestSpec{"number", 0, [](const Value& v, const Arguments&) { return v.is_number() || v.is_boolean(); }},
    TestSpec{"odd", 0, [](const Value& v, const Arguments&) { return is_remainder(v, 2, 1); }},
    TestSpec{"sequence", 0,
             [](const Value& v, const Arguments&) { return v.is_string() || v.is_array() || v.is_object(); }},
    TestSpec{"string", 0, [](const Value& v, const Arguments&) { return v.is_string(); }},
    TestSpec{"true", 0, [](const Value& v, const Arguments&) { return v.is_boolean() && v.get<bool>(); }},
    TestSpec{"undefined", 0, [](const Value&, const Arguments&) { return false; }},
    TestSpec{"upper", 0, [](const Value& v, const Arguments&) { return has_case(v, 'A', 'Z', 'a', 'z'); }},
};

const TestSpec& find_test(std::string_view name) {
  // select('==', x) and the like: Jinja2 knows the operators as tests.
  constexpr std::array<std::pair<std::string_view, std::string_view>, 6> signs = {
      {{"==", "eq"}, {"!=", "ne"}, {"<", "lt"}, {"<=", "le"}, {">", "gt"}, {">=", "ge"}}};
  const auto sign = std::find_if(signs.begin(), signs.end(), [&](const auto& pair) { return pair.first == name; });
  if (sign != signs.end()) name = sign->second;
  const auto found =
      std::find_if(kTests.begin(), kTests.end(), [&](const TestSpec& test) { return test.name == name; });
  if (found != kTests.end()) return *found;
  std::vector<std::string> names;
  for (const TestSpec& test : kTests) names.emplace_back(test.name);
  const auto near = nearest(name, names);
  expression_problem(fmt::format("unknown test '{}'", name),
                     near ? fmt::format("did you mean '{}'?", *near) : "tests: " + join(names, " "));
}

}  // namespace

void check_test(std::string_view name, std::size_t arguments) {
  const TestSpec& test = find_test(name);
  if (test.arguments == arguments) return;
  expression_problem(fmt::format("test '{}' takes {}", name, test.arguments == 0 ? "no argument" : "one argument"));
}

bool apply_test(std::string_view name, const Value& input, const std::vector<Value>& arguments) {
  check_test(name, arguments.size());
  return find_test(name).apply(input, arguments);
}

}  // namespace millwright
