#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "orchestrator/base/text.hpp"
#include "orchestrator/playbook/filter_parts.hpp"

namespace millwright {
namespace {

Value comparable(const Value& value, const Value* case_sensitive) {
  return value.is_string() && !filter_flag(case_sensitive) ? Value(lower_text(value)) : value;
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

}  // namespace

Value filter_sort(const Value& input, const FilterArguments& arguments, Budget& budget) {
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
  const bool reverse = filter_flag(arguments[0]);
  if (reverse) std::reverse(items.begin(), items.end());
  merge_sort(items);
  if (reverse) std::reverse(items.begin(), items.end());
  Value out = Value::array();
  for (Keyed& keyed : items) out.push_back(std::move(keyed.item));
  return out;
}

Value filter_unique(const Value& input, const FilterArguments& arguments, Budget& budget) {
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

}  // namespace millwright
