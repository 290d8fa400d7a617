#include "inventory/yaml_values.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>

#include "inventory/data.hpp"
#include "orchestrator/base/text.hpp"

namespace millwright {
namespace {

bool one_of(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), text) != words.end();
}

// "1:30" is 90: whole numbers in base 60, which PyYAML still reads.
std::optional<std::int64_t> sexagesimal(std::string_view digits) {
  const std::vector<std::string> parts = split(digits, ':');
  if (parts.size() < 2) return std::nullopt;
  std::int64_t total = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    std::int64_t part = 0;
    const std::string& text = parts[i];
    const char* last = text.data() + text.size();
    if (text.empty() || std::from_chars(text.data(), last, part).ptr != last || part < 0) return std::nullopt;
    if (i == 0 ? text[0] == '0' : (text.size() > 2 || part > 59)) return std::nullopt;
    if (total > std::numeric_limits<std::int64_t>::max() / 61) return std::nullopt;
    total = total * 60 + part;
  }
  return total;
}

std::optional<Value> integer(std::string_view text) {
  std::string_view body = text;
  bool negative = false;
  if (!body.empty() && (body[0] == '-' || body[0] == '+')) {
    negative = body[0] == '-';
    body.remove_prefix(1);
  }
  if (body.empty() || body[0] < '0' || body[0] > '9') return std::nullopt;
  std::string digits(body);
  digits.erase(std::remove(digits.begin(), digits.end(), '_'), digits.end());
  if (const auto base60 = sexagesimal(digits)) return Value(negative ? -*base60 : *base60);
  int base = 10;
  std::size_t skip = 0;
  if (digits.size() > 2 && digits[0] == '0' && (digits[1] == 'x' || digits[1] == 'b')) {
    base = digits[1] == 'x' ? 16 : 2;
    skip = 2;
  } else if (digits.size() > 1 && digits[0] == '0') {
    base = 8;
    skip = 1;
  }
  std::int64_t value = 0;
  const char* last = digits.data() + digits.size();
  const auto parsed = std::from_chars(digits.data() + skip, last, value, base);
  if (parsed.ec != std::errc() || parsed.ptr != last) return std::nullopt;
  return Value(negative ? -value : value);
}

// A dot is needed, and a sign in the exponent: "1e5" and "1.5e5" are strings in YAML 1.1.
std::optional<Value> real(std::string_view text) {
  if (one_of(text, {".inf", ".Inf", ".INF", "+.inf", "-.inf", ".nan", ".NaN", ".NAN"})) return Value(std::string(text));
  std::string digits(text);
  digits.erase(std::remove(digits.begin(), digits.end(), '_'), digits.end());
  const std::size_t sign = !digits.empty() && (digits[0] == '-' || digits[0] == '+') ? 1 : 0;
  const std::size_t exponent = digits.find_first_of("eE");
  const std::string mantissa = digits.substr(sign, exponent == std::string::npos ? exponent : exponent - sign);
  const std::size_t dot = mantissa.find('.');
  if (dot == std::string::npos || mantissa.size() < 2 ||
      mantissa.find_first_not_of("0123456789.") != std::string::npos ||
      mantissa.find('.', dot + 1) != std::string::npos)
    return std::nullopt;
  if (dot == 0 && sign == 1) return std::nullopt;
  if (exponent != std::string::npos) {
    const std::string tail = digits.substr(exponent + 1);
    if (tail.size() < 2 || (tail[0] != '-' && tail[0] != '+') ||
        tail.find_first_not_of("0123456789", 1) != std::string::npos)
      return std::nullopt;
  }
  double value = 0;
  const char* first = digits.data() + (digits[0] == '+' ? 1 : 0);
  const char* last = digits.data() + digits.size();
  const auto parsed = std::from_chars(first, last, value);
  if (parsed.ec != std::errc() || parsed.ptr != last) return std::nullopt;
  return Value(value);
}

Value tagged_scalar(const YamlNode& node, std::vector<Error>& errors) {
  if (node.tag == "!secret") return Value{{kSecretKey, node.text}};
  if (node.tag == "!vault" || node.tag == "!vault-encrypted") return Value{{kVaultKey, node.text}};
  if (node.tag == "!unsafe") return node.text;
  errors.push_back(make_error(ErrorKind::invalid, fmt::format("tag '{}' is not known here", node.tag))
                       .at(node.mark)
                       .with_hint("known are !secret, !vault and !unsafe"));
  return node.text;
}

}  // namespace

Value yaml11_scalar(const std::string& text) {
  if (text.empty() || one_of(text, {"~", "null", "Null", "NULL"})) return nullptr;
  if (one_of(text, {"yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"})) return true;
  if (one_of(text, {"no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"})) return false;
  if (const auto number = integer(text)) return *number;
  if (const auto number = real(text)) return *number;
  return text;
}

Value ansible_value(const YamlNode& node, std::vector<Error>& errors) {
  switch (node.kind) {
    case YamlKind::null:
      return nullptr;
    case YamlKind::scalar:
      if (!node.tag.empty()) return tagged_scalar(node, errors);
      return node.quoted ? Value(node.text) : yaml11_scalar(node.text);
    case YamlKind::sequence: {
      Value out = Value::array();
      for (const YamlNode& item : node.items) out.push_back(ansible_value(item, errors));
      return out;
    }
    case YamlKind::mapping: {
      Value out = Value::object();
      for (const auto& [key, value] : node.entries) out[key.text] = ansible_value(value, errors);
      return out;
    }
  }
  return nullptr;
}

}  // namespace millwright
