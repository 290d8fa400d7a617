// Unified diffs of small texts, for plans. Pure functions; may be used from any thread.
#pragma once

#include <string>
#include <string_view>

namespace millwright::core {

// Valid UTF-8 without NUL or other control bytes than tab, line feed, form feed, carriage return: can be shown.
bool is_text(std::string_view bytes);

// "--- path", "+++ path", hunks with three lines of context; empty when both are the same. A missing newline at the
// end shows as diff(1) does it. Texts of more than 2000 differing lines come as one block out, one block in.
std::string unified_diff(std::string_view before, std::string_view after, std::string_view path);

// Lines that a unified diff takes out and puts in.
struct LineCounts {
  int removed = 0;
  int added = 0;
};
LineCounts count_lines(std::string_view diff);

}  // namespace millwright::core
