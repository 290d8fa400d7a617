// map and select: filters that apply another filter or a test to each item.
#include <fmt/format.h>

#include "orchestrator/playbook/filter_parts.hpp"

namespace millwright {
namespace {

const std::string& name_argument(std::string_view filter, const Value& argument) {
  if (!argument.is_string()) {
    expression_problem(fmt::format("'{}' needs the name of a {}", filter, filter == "map" ? "filter" : "test"));
  }
  return argument.get_ref<const std::string&>();
}

Value map_attribute(const Value& input, const Value& attribute, const Value* otherwise, Budget& budget) {
  Value out = Value::array();
  const std::string path = attribute_path(attribute);
  for (const Value& item : python_iterate(input)) {
    const Value* found = attribute_of(item, path);
    if (found == nullptr) found = otherwise;
    if (found == nullptr || (found == otherwise && found->is_null())) {
      expression_problem(fmt::format("an item has no attribute '{}'", path), "give map a default=...");
    }
    budget.charge(*found);
    out.push_back(*found);
  }
  return out;
}

}  // namespace

void check_variadic(const ExpressionNode& node) {
  for (std::size_t i = 0; i < node.names.size(); ++i) {
    const bool known = node.name == "map" && (node.names[i] == "attribute" || node.names[i] == "default");
    if (!node.names[i].empty() && !known) {
      expression_problem(fmt::format("filter '{}' has no argument '{}'", node.name, node.names[i]));
    }
    if (i == 0 && node.names[i].empty() && node.children[1]->kind == NodeKind::literal) {
      const std::string& name = name_argument(node.name, node.children[1]->value);
      if (node.name == "map") {
        find_filter(name);
      } else {
        check_test(name, node.names.size() - 1);
      }
    }
  }
  if (node.name == "map" && node.names.empty()) expression_problem("'map' needs a filter or attribute=...");
}

Value apply_map(const Value& input, const std::vector<Value>& arguments, const std::vector<std::string>& names,
                Budget& budget) {
  const Value* attribute = nullptr;
  const Value* otherwise = nullptr;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i] == "attribute") attribute = &arguments[i];
    if (names[i] == "default") otherwise = &arguments[i];
  }
  if (attribute != nullptr && names[0].empty()) expression_problem("'map' takes a filter or attribute=..., not both");
  if (attribute != nullptr) return map_attribute(input, *attribute, otherwise, budget);
  if (otherwise != nullptr) expression_problem("'default' goes with attribute=...");
  const std::string& name = name_argument("map", arguments.at(0));
  const FilterSpec& spec = find_filter(name);
  if (spec.variadic) expression_problem(fmt::format("'map' cannot apply '{}'", name));
  if (arguments.size() - 1 > spec.parameters.size() || arguments.size() - 1 < spec.required) {
    expression_problem(
        fmt::format("filter '{}' takes {} to {} arguments", name, spec.required, spec.parameters.size()));
  }
  FilterArguments bound(spec.parameters.size(), nullptr);
  for (std::size_t i = 1; i < arguments.size(); ++i) bound[i - 1] = &arguments[i];
  Value out = Value::array();
  for (const Value& item : python_iterate(input)) {
    if (name == "default" || name == "d") {
      const bool replaced = filter_flag(bound[1]) && !truthy_value(item);
      out.push_back(!replaced ? item : bound[0] == nullptr ? Value("") : *bound[0]);
    } else {
      out.push_back(apply_filter(name, item, bound, budget));
    }
    budget.charge(out.back());
  }
  return out;
}

Value apply_select(const Value& input, const std::vector<Value>& arguments, Budget& budget) {
  Value out = Value::array();
  if (!truthy_value(input)) return out;
  std::vector<Value> rest;
  if (!arguments.empty()) rest.assign(arguments.begin() + 1, arguments.end());
  for (Value& item : python_iterate(input)) {
    const bool keep =
        arguments.empty() ? truthy_value(item) : apply_test(name_argument("select", arguments[0]), item, rest);
    if (!keep) continue;
    budget.charge(item);
    out.push_back(std::move(item));
  }
  return out;
}

}  // namespace millwright
