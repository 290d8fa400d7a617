// A second look at the bytes of a document: what yaml-cpp does not report or reports in the wrong place. Internal.
#pragma once

#include <string>

#include "orchestrator/base/source_text.hpp"

namespace millwright::yaml {

enum class RawStyle { plain, quoted, block };

struct RawScalar {
  RawStyle style = RawStyle::plain;
  std::size_t start = 0;  // of the quote, the block sign or the first character; tags and anchors are before it
  std::size_t end = 0;    // one past the last byte on the first line that belongs to it
  std::size_t close = 0;  // one past the closing quote, or past the text
  bool closed = true;     // false: a quote that is never closed
};

// The scalar whose node starts at `at` (at its tag or anchor, if any) and reads `value`.
RawScalar scan_scalar(std::string_view text, std::size_t at, std::string_view value);

// Offset of the first tab in the white space that starts the line of `at`, if nothing but that is before `at`;
// npos when there is none.
std::size_t indentation_tab(const SourceText& source, std::size_t at);

// Offset of the first quote at or after `from` that stands where a quoted scalar may begin; npos when there is none.
std::size_t opening_quote(std::string_view text, std::size_t from);

// yaml-cpp's sentence for a syntax error, in words that say what to do. `found` is the character at the place.
struct Explanation {
  std::string message;
  std::string hint;
};
Explanation explain_syntax(std::string_view said, char found);

// Places of the lines of a literal block scalar (|) that starts at `start` and has `count` lines.
std::vector<SourceMark> block_lines(const SourceText& source, std::size_t start, std::size_t count);

}  // namespace millwright::yaml
