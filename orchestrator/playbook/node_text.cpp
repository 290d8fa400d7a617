#include "orchestrator/playbook/node_text.hpp"

#include <algorithm>
#include <optional>

namespace millwright {
namespace {

SourceMark shifted(SourceMark mark, std::size_t by, std::size_t length) {
  mark.column += static_cast<int>(by);
  const auto column = static_cast<std::size_t>(mark.column) - 1;
  const std::size_t left = mark.line_text.size() > column ? mark.line_text.size() - column : 1;
  mark.length = static_cast<int>(std::clamp<std::size_t>(length, 1, mark.line_text.empty() ? length + 1 : left));
  return mark;
}

// Start of the scalar in its line, after tags and anchors.
std::size_t content_start(std::string_view line, std::size_t at) {
  while (at < line.size() && (line[at] == '!' || line[at] == '&')) {
    at = std::min(line.find_first_of(" \t", at), line.size());
    at = std::min(line.find_first_not_of(" \t", at), line.size());
  }
  return at;
}

struct Escape {
  std::size_t raw;   // bytes in the file
  std::size_t text;  // bytes they stand for
};

// The character at `at` inside a quoted scalar (YAML 1.2.2, 5.7); nothing where the quote ends.
std::optional<Escape> quoted_character(std::string_view line, std::size_t at, char quote) {
  if (at >= line.size()) return {};
  if (quote == '\'') {
    if (line[at] != '\'') return Escape{1, 1};
    if (at + 1 < line.size() && line[at + 1] == '\'') return Escape{2, 1};
    return {};
  }
  if (line[at] == '"') return {};
  if (line[at] != '\\') return Escape{1, 1};
  if (at + 1 >= line.size()) return {};
  const auto code_bytes = [&](std::size_t digits) -> std::size_t {
    const unsigned long code = std::strtoul(std::string(line.substr(at + 2, digits)).c_str(), nullptr, 16);
    return code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
  };
  switch (line[at + 1]) {
    case 'x':
      return Escape{4, code_bytes(2)};
    case 'u':
      return Escape{6, code_bytes(4)};
    case 'U':
      return Escape{10, code_bytes(8)};
    case '_':
    case 'N':
      return Escape{2, 2};
    case 'L':
    case 'P':
      return Escape{2, 3};
    default:
      return Escape{2, 1};
  }
}

}  // namespace

NodeText::NodeText(std::string text, const SourceMark& origin)
    : text_(std::move(text)), origin_(origin), direct_(true) {}

NodeText::NodeText(const YamlNode& node)
    : text_(node.text), origin_(node.mark), quoted_(node.quoted), lines_(node.lines) {}

SourceMark NodeText::mark(std::size_t offset, std::size_t length) const {
  offset = std::min(offset, text_.size());
  if (!lines_.empty()) {
    const auto line =
        static_cast<std::size_t>(std::count(text_.begin(), text_.begin() + static_cast<long>(offset), '\n'));
    const std::size_t start = offset == 0 ? std::string::npos : text_.rfind('\n', offset - 1);
    if (line < lines_.size()) {
      return shifted(lines_[line], offset - (start == std::string::npos ? 0 : start + 1), length);
    }
    return origin_;
  }
  if (text_.find('\n') < offset) return origin_;
  if (direct_) return shifted(origin_, offset, length);
  const std::string_view line = origin_.line_text;
  const std::size_t base = static_cast<std::size_t>(origin_.column) - 1;
  std::size_t at = content_start(line, base);
  if (at >= line.size()) return origin_;
  if (!quoted_) {
    if (line.substr(at, offset) != std::string_view(text_).substr(0, offset)) return origin_;
    return shifted(origin_, at - base + offset, length);
  }
  const char quote = line[at++];
  if (quote != '"' && quote != '\'') return origin_;
  for (std::size_t seen = 0; seen < offset;) {
    const auto character = quoted_character(line, at, quote);
    if (!character) return origin_;
    at += character->raw;
    seen += character->text;
  }
  if (at >= line.size()) return origin_;
  return shifted(origin_, at - base, length);
}

}  // namespace millwright
