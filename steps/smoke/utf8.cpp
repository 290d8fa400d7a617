#include "steps/smoke/utf8.hpp"

#include <fmt/format.h>

namespace millwright {
namespace {

constexpr char32_t kReplacement = 0xFFFD;

struct Decoded {
  char32_t point = kReplacement;
  std::size_t size = 1;
  bool valid = false;
};

// RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF.
Decoded decode(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(at);
  if (lead < 0x80) return {lead, 1, true};
  const std::size_t size = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || at + size > text.size()) return {};
  char32_t point = lead & (0x7Fu >> size);
  for (std::size_t i = 1; i < size; ++i) {
    if ((byte(at + i) & 0xC0) != 0x80) return {};
    point = (point << 6) | (byte(at + i) & 0x3Fu);
  }
  constexpr char32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
  if (point < smallest[size] || point > 0x10FFFF || (point >= 0xD800 && point <= 0xDFFF)) return {};
  return {point, size, true};
}

}  // namespace

CleanText clean_utf8(std::string_view bytes) {
  CleanText clean;
  clean.text.reserve(bytes.size());
  bool in_invalid = false;
  for (std::size_t at = 0; at < bytes.size();) {
    const Decoded next = decode(bytes, at);
    if (next.valid) {
      clean.text.append(bytes.substr(at, next.size));
    } else {
      if (!in_invalid) clean.text += "\xEF\xBF\xBD";
      ++clean.invalid_bytes;
    }
    in_invalid = !next.valid;
    at += next.size;
  }
  return clean;
}

std::vector<char32_t> code_points(std::string_view text) {
  std::vector<char32_t> points;
  points.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const Decoded next = decode(text, at);
    points.push_back(next.point);
    at += next.size;
  }
  return points;
}

std::string cut_text(std::string_view text, std::size_t limit) {
  if (text.size() <= limit) return std::string(text);
  std::size_t end = limit;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return std::string(text.substr(0, end)) + "...";
}

std::string printable(std::string_view text, std::size_t limit) {
  std::string out;
  for (const char c : cut_text(text, limit)) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (byte < 0x20 || byte == 0x7F) {
      out += fmt::format("\\x{:02x}", byte);
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace millwright
