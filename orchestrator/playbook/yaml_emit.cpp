#include "orchestrator/playbook/yaml_emit.hpp"

#include <cmath>

namespace millwright {
namespace {

// Plain only where every reader, YAML 1.1 ones included, takes it for the same text.
bool is_plain(const std::string& text) {
  if (text.empty()) return false;
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '/'; };
  if (!letter(text[0])) return false;
  for (const char c : text) {
    if (!letter(c) && !(c >= '0' && c <= '9') && std::string_view(" .-+@=").find(c) == std::string_view::npos)
      return false;
  }
  if (text.back() == ' ') return false;
  std::string lower;
  for (const char c : text) lower += static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  for (const char* word : {"true", "false", "yes", "no", "on", "off", "y", "n", "null", "="}) {
    if (lower == word) return false;
  }
  return true;
}

std::string scalar(const Value& value) {
  if (value.is_string()) {
    const auto& text = value.get_ref<const std::string&>();
    // JSON strings are YAML double-quoted scalars, except that DEL must be escaped too.
    if (is_plain(text)) return text;
    std::string quoted = value.dump(-1, ' ', false, Value::error_handler_t::replace);
    for (std::size_t at = quoted.find('\x7f'); at != std::string::npos; at = quoted.find('\x7f', at)) {
      quoted.replace(at, 1, "\\x7f");
    }
    return quoted;
  }
  if (value.is_number_float() && !std::isfinite(value.get<double>())) {
    const double number = value.get<double>();
    return std::isnan(number) ? ".nan" : number > 0 ? ".inf" : "-.inf";
  }
  return value.dump();
}

void emit(const Value& value, std::size_t indent, std::string& out);

// After "- " or "key:".
void emit_nested(const Value& value, std::size_t indent, bool after_dash, std::string& out) {
  if (!value.is_structured() || value.empty()) {
    out += after_dash ? "" : " ";
    out += value.is_structured() ? (value.is_array() ? "[]" : "{}") : scalar(value);
    out += '\n';
    return;
  }
  if (!after_dash) {
    out += '\n';
    emit(value, indent, out);
    return;
  }
  std::string inner;
  emit(value, indent, inner);
  out += inner.substr(indent);  // the first line goes on behind the dash
}

void emit(const Value& value, std::size_t indent, std::string& out) {
  const std::string pad(indent, ' ');
  if (!value.is_structured() || value.empty()) {
    out += pad;
    emit_nested(value, indent, true, out);
    return;
  }
  for (const auto& [key, item] : value.items()) {
    out += pad;
    if (value.is_array()) {
      out += "- ";
      emit_nested(item, indent + 2, true, out);
    } else {
      out += scalar(Value(key)) + ":";
      emit_nested(item, indent + 2, false, out);
    }
  }
}

}  // namespace

std::string emit_yaml(const Value& value) {
  std::string out;
  emit(value, 0, out);
  return out;
}

}  // namespace millwright
