#include "orchestrator/playbook/filter_parts.hpp"

#include <fmt/format.h>

#include <charconv>

#include "orchestrator/base/text.hpp"

namespace millwright {
namespace {

std::string change_case(const Value& input, char from, char to, int by) {
  std::string out = python_str(input);
  for (char& c : out) {
    if (c >= from && c <= to) c = static_cast<char>(c + by);
  }
  return out;
}

}  // namespace

bool filter_flag(const Value* argument) { return argument != nullptr && truthy_value(*argument); }

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

std::string lower_text(const Value& input) { return change_case(input, 'A', 'Z', 'a' - 'A'); }
std::string upper_text(const Value& input) { return change_case(input, 'a', 'z', 'A' - 'a'); }

}  // namespace millwright
