#include "orchestrator/base/yaml.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "orchestrator/base/read_file.hpp"
#include "orchestrator/base/yaml_builder.hpp"

namespace millwright {
namespace {

bool all_of_set(std::string_view text, std::string_view set) {
  return !text.empty() && text.find_first_not_of(set) == std::string_view::npos;
}

constexpr std::string_view kDigits = "0123456789";

std::optional<std::int64_t> parse_integer(std::string_view digits, int base) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
  if (error != std::errc() || end != digits.data() + digits.size()) return {};
  return value;
}

std::optional<Value> integer_value(std::string_view text) {
  if (text.substr(0, 2) == "0x" && all_of_set(text.substr(2), "0123456789abcdefABCDEF")) {
    if (const auto value = parse_integer(text.substr(2), 16)) return *value;
    return {};
  }
  if (text.substr(0, 2) == "0o" && all_of_set(text.substr(2), "01234567")) {
    if (const auto value = parse_integer(text.substr(2), 8)) return *value;
    return {};
  }
  const bool has_sign = !text.empty() && (text[0] == '-' || text[0] == '+');
  const std::string_view digits = text.substr(has_sign ? 1 : 0);
  if (!all_of_set(digits, kDigits) || (digits.size() > 1 && digits[0] == '0')) return {};
  // from_chars knows no plus sign.
  if (const auto value = parse_integer(text[0] == '+' ? digits : text, 10)) return *value;
  return {};
}

// [-+]? ( \. [0-9]+ | [0-9]+ ( \. [0-9]* )? ) ( [eE] [-+]? [0-9]+ )?   (YAML 1.2.2, 10.3.2), without plain integers
std::optional<Value> float_value(std::string_view text) {
  if (text == ".inf" || text == ".Inf" || text == ".INF" || text == "+.inf") return HUGE_VAL;
  if (text == "-.inf" || text == "-.Inf" || text == "-.INF") return -HUGE_VAL;
  if (text == ".nan" || text == ".NaN" || text == ".NAN") return std::nan("");
  std::size_t at = !text.empty() && (text[0] == '-' || text[0] == '+') ? 1 : 0;
  const auto digits = [&] {
    const std::size_t from = at;
    while (at < text.size() && kDigits.find(text[at]) != std::string_view::npos) ++at;
    return at - from;
  };
  const std::size_t whole = digits();
  bool is_float = false;
  if (at < text.size() && text[at] == '.') {
    ++at;
    is_float = true;
    if (digits() == 0 && whole == 0) return {};
  } else if (whole == 0) {
    return {};
  }
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    ++at;
    is_float = true;
    if (at < text.size() && (text[at] == '-' || text[at] == '+')) ++at;
    if (digits() == 0) return {};
  }
  if (at != text.size() || !is_float) return {};
  const std::string_view number = text[0] == '+' ? text.substr(1) : text;
  double value = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
  if (error != std::errc() || end != number.data() + number.size() || !std::isfinite(value)) return {};
  return value;
}

Value plain_value(std::string_view text) {
  if (text.empty() || text == "~" || text == "null" || text == "Null" || text == "NULL") return nullptr;
  if (text == "true" || text == "True" || text == "TRUE") return true;
  if (text == "false" || text == "False" || text == "FALSE") return false;
  if (auto value = integer_value(text)) return *value;
  if (auto value = float_value(text)) return *value;
  return std::string(text);
}

}  // namespace

const YamlNode* YamlNode::find(std::string_view key) const {
  for (const auto& [name, value] : entries) {
    if (name.text == key) return &value;
  }
  return nullptr;
}

Value YamlNode::to_value() const {
  switch (kind) {
    case YamlKind::null:
      return nullptr;
    case YamlKind::scalar:
      return quoted || !tag.empty() ? Value(text) : plain_value(text);
    case YamlKind::sequence: {
      Value out = Value::array();
      for (const YamlNode& item : items) out.push_back(item.to_value());
      return out;
    }
    case YamlKind::mapping: {
      Value out = Value::object();
      for (const auto& [key, value] : entries) out[key.text] = value.to_value();
      return out;
    }
  }
  return nullptr;
}

tl::expected<YamlNode, std::vector<Error>> parse_yaml(std::string_view text, const std::string& file,
                                                      const YamlLimits& limits) {
  return yaml::build_document(text, file, limits);
}

tl::expected<YamlNode, std::vector<Error>> load_yaml(const std::string& path, const YamlLimits& limits) {
  // The document itself is refused when it is larger than allowed; whatever is far larger is not even read.
  const Result<std::string> text = read_file(path, 2 * limits.max_bytes);
  if (!text) return tl::unexpected(std::vector<Error>{text.error()});
  return parse_yaml(*text, path, limits);
}

}  // namespace millwright
