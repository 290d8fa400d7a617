#include "orchestrator/base/value_size.hpp"

namespace millwright {

std::size_t value_size(const Value& value) {
  std::size_t total = sizeof(Value);
  if (value.is_string()) {
    total += value.get_ref<const std::string&>().size();
  } else if (value.is_array()) {
    for (const Value& item : value) total += value_size(item);
  } else if (value.is_object()) {
    for (const auto& [key, item] : value.items()) total += key.size() + value_size(item);
  }
  return total;
}

}  // namespace millwright
