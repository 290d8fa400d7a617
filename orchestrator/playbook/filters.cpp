#include "orchestrator/playbook/filters.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <set>

#include "orchestrator/base/shell.hpp"
#include "orchestrator/base/text.hpp"
#include "orchestrator/playbook/yaml_emit.hpp"

namespace millwright {
namespace {

constexpr std::string_view kBlanks = " \t\n\r\f\v";

using Arguments = FilterArguments;
using Apply = Value (*)(const Value& input, const Arguments& arguments, Budget& budget);

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

bool flag(const Value* argument) { return argument != nullptr && truthy_value(*argument); }

// By "a.b.0": keys of mappings, positions in lists. Null pointer: not there.
const Value* attribute_of(const Value& item, std::string_view path) {
  const Value* at = &item;
  for (const std::string& part : split(path, '.')) {
    if (at->is_object()) {
      const auto found = at->find(part);
      if (found == at->end()) return nullptr;
      at = &*found;
    } else {
      std::size_t index = 0;
      const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), index);
      if (!at->is_array() || error != std::errc() || end != part.data() + part.size() || index >= at->size()) {
        return nullptr;
      }
      at = &(*at)[index];
    }
  }
  return at;
}

std::string attribute_path(const Value& attribute) {
  if (attribute.is_string()) return attribute.get<std::string>();
  if (attribute.is_number_integer()) return attribute.dump();
  expression_problem(fmt::format("'attribute' is {}, not a text", type_name(attribute)));
}

Value attribute_or_problem(const Value& item, const Value* attribute) {
  if (attribute == nullptr || attribute->is_null()) return item;
  const std::string path = attribute_path(*attribute);
  const Value* found = attribute_of(item, path);
  if (found == nullptr) expression_problem(fmt::format("an item has no attribute '{}'", path));
  return *found;
}

std::string change_case(const Value& input, char from, char to, int by) {
  std::string out = python_str(input);
  for (char& c : out) {
    if (c >= from && c <= to) c = static_cast<char>(c + by);
  }
  return out;
}
std::string lower_text(const Value& input) { return change_case(input, 'A', 'Z', 'a' - 'A'); }

Value comparable(const Value& value, const Value* case_sensitive) {
  return value.is_string() && !flag(case_sensitive) ? Value(lower_text(value)) : value;
}

Value filter_length(const Value& input, const Arguments&, Budget&) {
  if (!input.is_string() && !input.is_array() && !input.is_object()) {
    expression_problem(fmt::format("{} has no length", type_name(input)));
  }
  if (!input.is_string()) return static_cast<std::int64_t>(input.size());
  return static_cast<std::int64_t>(utf8_characters(input.get_ref<const std::string&>()).size());
}

Value filter_join(const Value& input, const Arguments& arguments, Budget& budget) {
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

Value filter_replace(const Value& input, const Arguments& arguments, Budget& budget) {
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
Value filter_split(const Value& input, const Arguments& arguments, Budget& budget) {
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

bool has_unwritable_number(const Value& value) {
  if (value.is_number_float()) return !std::isfinite(value.get<double>());
  return value.is_structured() && std::any_of(value.begin(), value.end(), has_unwritable_number);
}

Value filter_to_json(const Value& input, const Arguments&, Budget& budget) {
  if (has_unwritable_number(input)) expression_problem("JSON cannot hold an infinite number or NaN");
  std::string out = input.dump(-1, ' ', false, Value::error_handler_t::replace);
  budget.charge(out.size());
  return out;
}

Value filter_to_yaml(const Value& input, const Arguments&, Budget& budget) {
  std::string out = emit_yaml(input);
  budget.charge(out.size());
  return out;
}

struct Keyed {
  Value item;
  std::vector<Value> keys;
};

bool keys_less(const Keyed& a, const Keyed& b) {
  for (std::size_t i = 0; i < a.keys.size(); ++i) {
    if (!python_equal(a.keys[i], b.keys[i])) return python_less(a.keys[i], b.keys[i]);
  }
  return false;
}

// std::sort must not see an order that is none (NaN), nor a throwing comparison half way: a merge of our own is safe.
void merge_sort(std::vector<Keyed>& items) {
  if (items.size() < 2) return;
  const auto middle = static_cast<long>(items.size() / 2);
  std::vector<Keyed> left(std::make_move_iterator(items.begin()), std::make_move_iterator(items.begin() + middle));
  std::vector<Keyed> right(std::make_move_iterator(items.begin() + middle), std::make_move_iterator(items.end()));
  merge_sort(left);
  merge_sort(right);
  items.clear();
  std::size_t i = 0;
  std::size_t j = 0;
  while (i < left.size() || j < right.size()) {
    const bool take_right = i == left.size() || (j < right.size() && keys_less(right[j], left[i]));
    items.push_back(std::move(take_right ? right[j++] : left[i++]));
  }
}

Value filter_sort(const Value& input, const Arguments& arguments, Budget& budget) {
  budget.charge(input);
  std::vector<Keyed> items;
  std::vector<Value> attributes;
  if (arguments[2] != nullptr && !arguments[2]->is_null()) {
    for (const std::string& part : split(attribute_path(*arguments[2]), ',')) attributes.emplace_back(part);
  }
  for (Value& item : python_iterate(input)) {
    Keyed keyed;
    if (attributes.empty()) keyed.keys.push_back(comparable(item, arguments[1]));
    for (const Value& attribute : attributes) {
      keyed.keys.push_back(comparable(attribute_or_problem(item, &attribute), arguments[1]));
    }
    keyed.item = std::move(item);
    items.push_back(std::move(keyed));
  }
  // As Python's sorted: equal items keep their order also when reversed.
  const bool reverse = flag(arguments[0]);
  if (reverse) std::reverse(items.begin(), items.end());
  merge_sort(items);
  if (reverse) std::reverse(items.begin(), items.end());
  Value out = Value::array();
  for (Keyed& keyed : items) out.push_back(std::move(keyed.item));
  return out;
}

Value filter_unique(const Value& input, const Arguments& arguments, Budget& budget) {
  budget.charge(input);
  Value out = Value::array();
  std::set<std::string> seen;
  for (Value& item : python_iterate(input)) {
    const Value key = comparable(attribute_or_problem(item, arguments[1]), arguments[0]);
    if (key.is_structured()) expression_problem(fmt::format("'unique' cannot compare {}", type_name(key)));
    std::string text = key.dump(-1, ' ', false, Value::error_handler_t::replace);
    // 1, 1.0 and true are equal.
    if (const auto number = as_number(key)) {
      const auto integer = as_integer(key);
      const bool whole = !integer && std::fabs(*number) < 9.0e18 && std::floor(*number) == *number;
      text = integer ? fmt::format("{}", *integer)
             : whole ? fmt::format("{}", static_cast<std::int64_t>(*number))
                     : fmt::format("{}", *number);
    }
    if (seen.insert(text).second) out.push_back(std::move(item));
  }
  return out;
}

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

Value filter_int(const Value& input, const Arguments& arguments, Budget&) {
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

Value filter_float(const Value& input, const Arguments& arguments, Budget&) {
  if (const auto number = as_number(input)) return *number;
  if (input.is_string()) {
    if (const auto number = float_of_text(input.get_ref<const std::string&>())) return *number;
  }
  return arguments[0] == nullptr ? Value(0.0) : *arguments[0];
}

Value end_item(const Value& input, bool last) {
  const std::vector<Value> items = python_iterate(input);
  if (items.empty())
    expression_problem(fmt::format("there is no {} item: the sequence is empty", last ? "last" : "first"));
  return last ? items.back() : items.front();
}

const std::array<std::pair<std::string_view, Apply>, 16> kApply = {{
    {"count", filter_length},
    {"first", [](const Value& input, const Arguments&, Budget&) { return end_item(input, false); }},
    {"float", filter_float},
    {"int", filter_int},
    {"join", filter_join},
    {"last", [](const Value& input, const Arguments&, Budget&) { return end_item(input, true); }},
    {"length", filter_length},
    {"lower", [](const Value& input, const Arguments&, Budget&) { return Value(lower_text(input)); }},
    {"quote", [](const Value& input, const Arguments&, Budget&) { return Value(shell_quote(python_str(input))); }},
    {"replace", filter_replace},
    {"sort", filter_sort},
    {"split", filter_split},
    {"to_json", filter_to_json},
    {"to_yaml", filter_to_yaml},
    {"unique", filter_unique},
    {"upper",
     [](const Value& input, const Arguments&, Budget&) { return Value(change_case(input, 'a', 'z', 'A' - 'a')); }},
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
      const bool replaced = flag(bound[1]) && !truthy_value(item);
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
