// A text with a table of its lines: turns byte offsets into marks.
//
// Immutable after construction; borrows the text, which must outlive it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "orchestrator/base/error.hpp"

namespace millwright {

class SourceText {
 public:
  SourceText(std::string_view text, std::string file);

  std::string_view text() const { return text_; }
  int line_count() const { return static_cast<int>(starts_.size()); }
  // Lines count from 1 and are returned without their end; a line that does not exist is empty.
  std::string_view line(int number) const;
  // Offset of a place, clamped into the text. Lines and columns count from 1.
  std::size_t offset(int line, int column) const;
  // The length is cut at the end of the line and is at least 1. Lines longer than kLongestShownLine are not shown:
  // every node keeps its line, so a whole document in one line would be copied once per node.
  SourceMark mark(std::size_t offset, std::size_t length = 1) const;

  static constexpr std::size_t kLongestShownLine = 400;

 private:
  std::string_view text_;
  std::string file_;
  std::vector<std::size_t> starts_;
};

// The first byte that has no place in a text file (not UTF-8, or a control character that is neither tab nor line end),
// as an error with its place; `format` is what the file should be, as "YAML".
std::optional<Error> check_text(std::string_view text, const std::string& file, std::string_view format);

}  // namespace millwright
