#include "orchestrator/base/source_text.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "orchestrator/base/utf8.hpp"

namespace millwright {

SourceText::SourceText(std::string_view text, std::string file) : text_(text), file_(std::move(file)), starts_{0} {
  for (std::size_t at = text.find('\n'); at != std::string_view::npos; at = text.find('\n', at + 1)) {
    starts_.push_back(at + 1);
  }
}

std::string_view SourceText::line(int number) const {
  if (number < 1 || number > line_count()) return {};
  const std::size_t from = starts_[static_cast<std::size_t>(number) - 1];
  std::size_t to = std::min(text_.find('\n', from), text_.size());
  if (to > from && text_[to - 1] == '\r') --to;
  return text_.substr(from, to - from);
}

std::size_t SourceText::offset(int line, int column) const {
  if (line < 1) return 0;
  if (line > line_count()) return text_.size();
  const std::size_t start = starts_[static_cast<std::size_t>(line) - 1];
  return std::min(start + static_cast<std::size_t>(std::max(column, 1)) - 1, text_.size());
}

SourceMark SourceText::mark(std::size_t offset, std::size_t length) const {
  const auto next = std::upper_bound(starts_.begin(), starts_.end(), offset);
  const auto number = static_cast<int>(next - starts_.begin());
  const std::size_t column = offset - *(next - 1);
  const std::string_view shown = line(number);
  const std::size_t left = shown.size() > column ? shown.size() - column : 1;
  SourceMark mark;
  mark.file = file_;
  mark.line = number;
  mark.column = static_cast<int>(column) + 1;
  mark.length = static_cast<int>(std::clamp<std::size_t>(length, 1, left));
  if (shown.size() <= kLongestShownLine) mark.line_text = std::string(shown);
  return mark;
}

namespace {

Error byte_error(std::string_view text, const std::string& file, std::size_t at, std::string message,
                 std::string hint) {
  SourceMark mark = SourceText(text, file).mark(at);
  mark.line_text.clear();  // would put the bad byte on the terminal
  return make_error(ErrorKind::invalid, std::move(message)).at(std::move(mark)).with_hint(std::move(hint));
}

}  // namespace

std::optional<Error> check_text(std::string_view text, const std::string& file, std::string_view format) {
  for (std::size_t at = 0; at < text.size();) {
    const auto byte = static_cast<unsigned char>(text[at]);
    if ((byte < 0x20 && byte != '\t' && byte != '\n' && byte != '\r') || byte == 0x7F) {
      return byte_error(text, file, at, fmt::format("control character 0x{:02x} is not allowed in {}", byte, format),
                        format == "YAML" ? "remove it, or write it as an escape in double quotes" : "remove it");
    }
    const std::size_t length = utf8_sequence_length(text.substr(at));
    if (length == 0) {
      return byte_error(text, file, at, fmt::format("not UTF-8: byte 0x{:02x}", byte), "save the file as UTF-8");
    }
    at += length;
  }
  return std::nullopt;
}

}  // namespace millwright
