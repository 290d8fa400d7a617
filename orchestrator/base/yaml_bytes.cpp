#include <fmt/format.h>

#include "orchestrator/base/source_text.hpp"
#include "orchestrator/base/yaml_builder.hpp"

namespace millwright::yaml {
namespace {

// Length of the UTF-8 sequence at the start of `text`, or 0 when it is malformed, overlong, a surrogate or beyond
// U+10FFFF (table 3-7 of the Unicode standard).
std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) {
    return i < text.size() ? static_cast<unsigned>(static_cast<unsigned char>(text[i])) : 0u;
  };
  const auto tail = [&](std::size_t i) { return (byte(i) & 0xC0u) == 0x80u; };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return tail(1) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF) {
    if ((first == 0xE0 && byte(1) < 0xA0) || (first == 0xED && byte(1) > 0x9F)) return 0;
    return tail(1) && tail(2) ? 3 : 0;
  }
  if (first >= 0xF0 && first <= 0xF4) {
    if ((first == 0xF0 && byte(1) < 0x90) || (first == 0xF4 && byte(1) > 0x8F)) return 0;
    return tail(1) && tail(2) && tail(3) ? 4 : 0;
  }
  return 0;
}

Error byte_error(std::string_view text, const std::string& file, std::size_t at, std::string message,
                 std::string hint) {
  SourceMark mark = SourceText(text, file).mark(at);
  mark.line_text.clear();  // would put the bad byte on the terminal
  return make_error(ErrorKind::invalid, std::move(message)).at(std::move(mark)).with_hint(std::move(hint));
}

}  // namespace

std::vector<Error> check_bytes(std::string_view text, const std::string& file, const YamlLimits& limits) {
  if (text.size() > limits.max_bytes) {
    return {make_error(ErrorKind::invalid,
                       fmt::format("too large: {} bytes, at most {} are read", text.size(), limits.max_bytes))
                .at({file, 1, 1, 1, ""})};
  }
  for (std::size_t at = 0; at < text.size();) {
    const auto byte = static_cast<unsigned char>(text[at]);
    if ((byte < 0x20 && byte != '\t' && byte != '\n' && byte != '\r') || byte == 0x7F) {
      return {byte_error(text, file, at, fmt::format("control character 0x{:02x} is not allowed in YAML", byte),
                         "remove it, or write it as an escape in double quotes")};
    }
    const std::size_t length = utf8_length(text.substr(at));
    if (length == 0) {
      return {byte_error(text, file, at, fmt::format("not UTF-8: byte 0x{:02x}", byte), "save the file as UTF-8")};
    }
    at += length;
  }
  return {};
}

}  // namespace millwright::yaml
