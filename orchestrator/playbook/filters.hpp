// The filters and tests that expressions know. Internal to playbook/. Everything here throws ExpressionProblem.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "orchestrator/playbook/expression_node.hpp"
#include "orchestrator/playbook/python_like.hpp"

namespace millwright {

struct FilterSpec {
  std::string_view name;
  std::vector<std::string_view> parameters;
  std::size_t required = 0;
  bool variadic = false;  // map and select: take another filter or test and its arguments
};

// Unknown: a problem with a suggestion.
const FilterSpec& find_filter(std::string_view name);
std::size_t parameter_index(const FilterSpec& spec, std::string_view name);
std::vector<std::string> filter_names();

// What can be said of map and select before they run.
void check_variadic(const ExpressionNode& node);
// Whether the test exists and takes so many arguments.
void check_test(std::string_view name, std::size_t arguments);

// Arguments by parameter; absent ones are null pointers. `default` is not here: it is about undefined values.
using FilterArguments = std::vector<const Value*>;
Value apply_filter(std::string_view name, const Value& input, const FilterArguments& arguments, Budget& budget);
bool apply_test(std::string_view name, const Value& input, const std::vector<Value>& arguments);

// map and select with evaluated arguments; `names` holds the keyword of each or "".
Value apply_map(const Value& input, const std::vector<Value>& arguments, const std::vector<std::string>& names,
                Budget& budget);
Value apply_select(const Value& input, const std::vector<Value>& arguments, Budget& budget);

}  // namespace millwright
