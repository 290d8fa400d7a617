#include "orchestrator/playbook/filters.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "orchestrator/base/shell.hpp"
#include "orchestrator/base/text.hpp"
#include "orchestrator/playbook/filter_parts.hpp"
#include "orchestrator/playbook/yaml_emit.hpp"

namespace millwright {
namespace {

using Apply = Value (*)(const Value& input, const FilterArguments& arguments, Budget& budget);

const std::vector<FilterSpec>& filter_specs() {
  static const std::vector<FilterSpec> specs = {
      {"count", {}},
      {"d", {"default_value", "boolean"}},
      {"default", {"default_value", "boolean"}},
      {"first", {}},
      {"float", {"default"}},
      {"int", {"default", "base"}},
      {"join", {"d", "attribute"}},
      {"last", {}},
      {"length", {}},
      {"lower", {}},
      {"map", {}, 0, true},
      {"quote", {}},
      {"replace", {"old", "new", "count"}, 2},
      {"select", {}, 0, true},
      {"sort", {"reverse", "case_sensitive", "attribute"}},
      {"split", {"sep", "maxsplit"}},
      {"to_json", {}},
      {"to_yaml", {}},
      {"unique", {"case_sensitive", "attribute"}},
      {"upper", {}},
  };
  return specs;
}

Value filter_length(const Value& input, const FilterArguments&, Budget&) {
  if (!input.is_string() && !input.is_array() && !input.is_object()) {
    expression_problem(fmt::format("{} has no length", type_name(input)));
  }
  if (!input.is_string()) return static_cast<std::int64_t>(input.size());
  return static_cast<std::int64_t>(utf8_characters(input.get_ref<const std::string&>()).size());
}

bool has_unwritable_number(const Value& value) {
  if (value.is_number_float()) return !std::isfinite(value.get<double>());
  return value.is_structured() && std::any_of(value.begin(), value.end(), has_unwritable_number);
}

Value filter_to_json(const Value& input, const FilterArguments&, Budget& budget) {
  if (has_unwritable_number(input)) expression_problem("JSON cannot hold an infinite number or NaN");
  std::string out = input.dump(-1, ' ', false, Value::error_handler_t::replace);
  budget.charge(out.size());
  return out;
}

Value filter_to_yaml(const Value& input, const FilterArguments&, Budget& budget) {
  std::string out = emit_yaml(input);
  budget.charge(out.size());
  return out;
}

Value end_item(const Value& input, bool last) {
  const std::vector<Value> items = python_iterate(input);
  if (items.empty())
    expression_problem(fmt::format("there is no {} item: the sequence is empty", last ? "last" : "first"));
  return last ? items.back() : items.front();
}

const std::array<std::pair<std::string_view, Apply>, 16> kApply = {{
    {"count", filter_length},
    {"first", [](const Value& input, const FilterArguments&, Budget&) { return end_item(input, false); }},
    {"float", filter_float},
    {"int", filter_int},
    {"join", filter_join},
    {"last", [](const Value& input, const FilterArguments&, Budget&) { return end_item(input, true); }},
    {"length", filter_length},
    {"lower", [](const Value& input, const FilterArguments&, Budget&) { return Value(lower_text(input)); }},
    {"quote",
     [](const Value& input, const FilterArguments&, Budget&) { return Value(shell_quote(python_str(input))); }},
    {"replace", filter_replace},
    {"sort", filter_sort},
    {"split", filter_split},
    {"to_json", filter_to_json},
    {"to_yaml", filter_to_yaml},
    {"unique", filter_unique},
    {"upper", [](const Value& input, const FilterArguments&, Budget&) { return Value(upper_text(input)); }},
}};

}  // namespace

const FilterSpec& find_filter(std::string_view name) {
  const auto& specs = filter_specs();
  const auto found =
      std::find_if(specs.begin(), specs.end(), [&](const FilterSpec& spec) { return spec.name == name; });
  if (found != specs.end()) return *found;
  const auto near = nearest(name, filter_names());
  expression_problem(fmt::format("unknown filter '{}'", name),
                     near ? fmt::format("did you mean '{}'?", *near) : "filters: " + join(filter_names(), " "));
}

std::vector<std::string> filter_names() {
  std::vector<std::string> names;
  for (const FilterSpec& spec : filter_specs()) names.emplace_back(spec.name);
  return names;
}

std::size_t parameter_index(const FilterSpec& spec, std::string_view name) {
  const auto& all = spec.parameters;
  const auto found = std::find(all.begin(), all.end(), name);
  if (found != all.end()) return static_cast<std::size_t>(found - all.begin());
  const std::vector<std::string> names(all.begin(), all.end());
  expression_problem(fmt::format("filter '{}' has no argument '{}'", spec.name, name),
                     names.empty() ? "it takes none" : "it takes: " + join(names, ", "));
}

Value apply_filter(std::string_view name, const Value& input, const FilterArguments& arguments, Budget& budget) {
  const auto found = std::find_if(kApply.begin(), kApply.end(), [&](const auto& entry) { return entry.first == name; });
  if (found == kApply.end()) expression_problem(fmt::format("filter '{}' cannot be used here", name));
  return found->second(input, arguments, budget);
}

}  // namespace millwright
