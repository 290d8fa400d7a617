#include "orchestrator/base/yaml_raw.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "orchestrator/base/text.hpp"

namespace millwright::yaml {
namespace {

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

std::size_t skip_properties(std::string_view text, std::size_t at) {
  while (at < text.size()) {
    if (is_blank(text[at])) {
      ++at;
    } else if (text[at] == '!' || text[at] == '&') {
      while (at < text.size() && !is_blank(text[at])) ++at;
    } else if (text[at] == '#') {
      at = std::min(text.find('\n', at), text.size());
    } else {
      break;
    }
  }
  return at;
}

std::size_t closing_quote(std::string_view text, std::size_t open) {
  const char quote = text[open];
  for (std::size_t at = open + 1; at < text.size(); ++at) {
    if (quote == '"' && text[at] == '\\') {
      ++at;
    } else if (text[at] == quote) {
      if (quote == '"' || at + 1 >= text.size() || text[at + 1] != quote) return at;
      ++at;
    }
  }
  return std::string_view::npos;
}

std::size_t line_end(std::string_view text, std::size_t at) { return std::min(text.find('\n', at), text.size()); }

}  // namespace

RawScalar scan_scalar(std::string_view text, std::size_t at, std::string_view value) {
  RawScalar raw;
  raw.start = at < text.size() && (text[at] == '!' || text[at] == '&') ? skip_properties(text, at) : at;
  raw.end = raw.close = std::min(raw.start + 1, text.size());
  if (raw.start >= text.size()) return raw;
  const char first = text[raw.start];
  if (first == '"' || first == '\'') {
    raw.style = RawStyle::quoted;
    const std::size_t close = closing_quote(text, raw.start);
    raw.closed = close != std::string_view::npos;
    raw.close = raw.closed ? close + 1 : text.size();
    raw.end = std::min(raw.close, line_end(text, raw.start));
  } else if (first == '|' || first == '>') {
    raw.style = RawStyle::block;
  } else if (text.substr(raw.start, value.size()) == value) {
    raw.end = raw.close = raw.start + value.size();
  } else {
    raw.end = raw.close = line_end(text, raw.start);
  }
  return raw;
}

std::size_t indentation_tab(const SourceText& source, std::size_t at) {
  const std::string_view text = source.text();
  std::size_t start = at;
  while (start > 0 && (text[start - 1] == ' ' || text[start - 1] == '\t')) --start;
  if (start > 0 && text[start - 1] != '\n') return std::string_view::npos;
  while (start < text.size() && text[start] == ' ') ++start;
  return start < text.size() && text[start] == '\t' ? start : std::string_view::npos;
}

std::size_t opening_quote(std::string_view text, std::size_t from) {
  for (std::size_t at = from; at < text.size(); ++at) {
    if (text[at] == '#' && (at == 0 || is_blank(text[at - 1]))) {
      at = line_end(text, at);
    } else if (text[at] == '"' || text[at] == '\'') {
      if (at == 0 || is_blank(text[at - 1]) || std::string_view("[{,:").find(text[at - 1]) != std::string_view::npos)
        return at;
    }
  }
  return std::string_view::npos;
}

Explanation explain_syntax(std::string_view said, char found) {
  if (said == "illegal map value") {
    return {"a ':' does not fit here", "quote a text that holds ': ', and check the indentation"};
  }
  if (said == "end of map not found") {
    return {"this does not continue the mapping above it", "check the indentation and where quotes close"};
  }
  if (said == "end of sequence not found") {
    return {"this does not continue the list above it", "check the indentation and where quotes close"};
  }
  if (said == "unknown token") {
    return {fmt::format("a plain text cannot start with '{}'", found), "put it in quotes"};
  }
  if (said == "illegal block entry") return {"a list item does not fit here", "start the list on a line of its own"};
  if (said == "illegal map key") return {"a key does not fit here", "check the indentation"};
  if (said == "illegal flow end") return {fmt::format("'{}' closes nothing", found), "remove it"};
  if (said.rfind("the referenced anchor is not defined", 0) == 0 ||
      said.find("unknown anchor") != std::string_view::npos) {
    return {"this alias names no anchor above it", "a text that starts with '*' must be quoted"};
  }
  return {fmt::format("not valid YAML: {}", said), ""};
}

std::vector<SourceMark> block_lines(const SourceText& source, std::size_t start, std::size_t count) {
  const int header = source.mark(start).line;
  const auto indent_of = [&](int number) {
    const std::string_view line = source.line(number);
    return std::min(line.find_first_not_of(' '), line.size());
  };
  // The first line that is not empty sets the indentation; lines cannot be indented less.
  std::size_t indent = std::string_view::npos;
  for (int i = 1; i <= static_cast<int>(count); ++i) {
    if (trim(source.line(header + i)).empty()) continue;
    indent = std::min(indent, indent_of(header + i));
  }
  std::vector<SourceMark> lines;
  for (int i = 1; i <= static_cast<int>(count); ++i) {
    const std::size_t column = indent == std::string_view::npos ? 0 : indent;
    lines.push_back(source.mark(source.offset(header + i, static_cast<int>(column) + 1)));
  }
  return lines;
}

}  // namespace millwright::yaml
