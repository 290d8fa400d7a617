#include "orchestrator/report/event_data.hpp"

namespace millwright {

std::string text_in(const Value& data, const char* key) {
  if (!data.is_object()) return {};
  const auto found = data.find(key);
  if (found == data.end() || found->is_null()) return {};
  if (found->is_string()) return found->get<std::string>();
  return found->dump(-1, ' ', false, Value::error_handler_t::replace);
}

std::int64_t integer_in(const Value& data, const char* key) {
  const std::optional<double> number = number_in(data, key);
  return number && *number > -9e18 && *number < 9e18 ? static_cast<std::int64_t>(*number) : 0;
}

std::optional<double> number_in(const Value& data, const char* key) {
  if (!data.is_object()) return std::nullopt;
  const auto found = data.find(key);
  if (found == data.end() || !found->is_number()) return std::nullopt;
  return found->get<double>();
}

std::vector<std::string> texts_in(const Value& data, const char* key) {
  std::vector<std::string> out;
  if (!data.is_object()) return out;
  const auto found = data.find(key);
  if (found == data.end() || !found->is_array()) return out;
  for (const Value& item : *found) {
    out.push_back(item.is_string() ? item.get<std::string>()
                                   : item.dump(-1, ' ', false, Value::error_handler_t::replace));
  }
  return out;
}

std::string error_sentence(const Value& data, const char* key) {
  if (!data.is_object() || !data.contains(key)) return {};
  const Value& error = data[key];
  return error.is_object() ? text_in(error, "message") : text_in(data, key);
}

}  // namespace millwright
