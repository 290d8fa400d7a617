#include "orchestrator/report/text_layout.hpp"

#include "orchestrator/base/text.hpp"

namespace millwright {
namespace {

bool continues(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

// Bytes of the code point at text[at], or 0 when it is no well-formed UTF-8.
std::size_t code_point(std::string_view text, std::size_t at) {
  const auto lead = static_cast<unsigned char>(text[at]);
  const std::size_t size = lead < 0x80                   ? 1
                           : lead >= 0xC2 && lead < 0xE0 ? 2
                           : lead >= 0xE0 && lead < 0xF0 ? 3
                           : lead >= 0xF0 && lead < 0xF5 ? 4
                                                         : 0;
  if (size == 0 || at + size > text.size()) return 0;
  for (std::size_t i = 1; i < size; ++i) {
    if (!continues(text[at + i])) return 0;
  }
  return size;
}

// The end of the escape sequence that begins at text[at] (an ESC): CSI, OSC, or two bytes.
std::size_t after_escape(std::string_view text, std::size_t at) {
  std::size_t i = at + 1;
  if (i >= text.size()) return i;
  if (text[i] == '[') {
    for (++i; i < text.size(); ++i) {
      if (text[i] >= 0x40 && text[i] <= 0x7E) return i + 1;
    }
    return i;
  }
  if (text[i] == ']') {
    for (++i; i < text.size(); ++i) {
      if (text[i] == '\a') return i + 1;
      if (text[i] == '\x1b' && i + 1 < text.size() && text[i + 1] == '\\') return i + 2;
    }
    return i;
  }
  return i + 1;
}

void wrap_line(std::string_view line, std::size_t width, std::vector<std::string>& out) {
  while (width_of(line) > width) {
    std::size_t fits = 0;
    for (std::size_t columns = 0; fits < line.size(); ++fits) {
      if (!continues(line[fits]) && ++columns > width) break;
    }
    const std::size_t blank = line.substr(0, fits + 1).rfind(' ');
    const std::size_t end = blank == std::string_view::npos || blank == 0 ? fits : blank;
    out.emplace_back(line.substr(0, end));
    line.remove_prefix(end);
    while (!line.empty() && line.front() == ' ') line.remove_prefix(1);
  }
  out.emplace_back(line);
}

}  // namespace

std::string printable(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    const char c = text[i];
    if (c == '\x1b') {
      i = after_escape(text, i);
    } else if (c == '\t' || c == '\n') {
      out += ' ';
      ++i;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == '\x7f') {
      ++i;
    } else if (const std::size_t size = code_point(text, i); size == 0) {
      out += "\xEF\xBF\xBD";
      ++i;
    } else {
      // U+0080 to U+009F are control characters, too.
      const bool control =
          size == 2 && static_cast<unsigned char>(c) == 0xC2 && static_cast<unsigned char>(text[i + 1]) < 0xA0;
      if (!control) out += text.substr(i, size);
      i += size;
    }
  }
  return out;
}

std::size_t width_of(std::string_view text) {
  std::size_t columns = 0;
  for (char c : text) columns += continues(c) ? 0 : 1;
  return columns;
}

std::string cut(std::string_view text, std::size_t width) {
  if (width_of(text) <= width) return std::string(text);
  if (width == 0) return {};
  std::size_t end = 0;
  for (std::size_t columns = 0; end < text.size(); ++end) {
    if (!continues(text[end]) && ++columns > width - 1) break;
  }
  return std::string(text.substr(0, end)) + "…";
}

std::vector<std::string> wrap_text(std::string_view text, std::size_t width) {
  std::vector<std::string> out;
  for (const std::string& line : split_lines(text)) {
    if (starts_with(line, "    ")) {
      out.push_back(printable(line));
    } else {
      wrap_line(printable(line), width == 0 ? 1 : width, out);
    }
  }
  if (out.empty()) out.emplace_back();
  return out;
}

std::string pad(std::string_view text, std::size_t width) {
  const std::size_t columns = width_of(text);
  return std::string(text) + std::string(columns < width ? width - columns : 0, ' ');
}

std::string painted(std::string_view text, Colour colour) {
  const char* code = "";
  switch (colour) {
    case Colour::plain:
      return std::string(text);
    case Colour::green:
      code = "32";
      break;
    case Colour::yellow:
      code = "33";
      break;
    case Colour::red:
      code = "31";
      break;
    case Colour::cyan:
      code = "36";
      break;
    case Colour::dim:
      code = "2";
      break;
    case Colour::bold:
      code = "1";
      break;
  }
  return "\x1b[" + std::string(code) + "m" + std::string(text) + "\x1b[0m";
}

}  // namespace millwright
