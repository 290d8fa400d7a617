// Text for a terminal of a known width: no control characters, cut or wrapped by what the eye sees.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace millwright {

enum class Colour { plain, green, yellow, red, cyan, dim, bold };

// Escape sequences and other control characters out (a node's output must not steer the terminal); a tab is one blank,
// a newline one blank unless lines are split first. Bytes that are no UTF-8 become U+FFFD.
std::string printable(std::string_view text);

// Columns that the text takes: one a code point, which is right for all but East Asian and combining characters.
std::size_t width_of(std::string_view text);

// At most `width` columns; what was cut shows as "…".
std::string cut(std::string_view text, std::size_t width);

// Lines of at most `width` columns, broken at blanks where there are any. Newlines in the text break, too. A line that
// begins with four blanks is a command to copy, and stays whole whatever its length.
std::vector<std::string> wrap_text(std::string_view text, std::size_t width);

std::string pad(std::string_view text, std::size_t width);  // blanks behind, to at least `width` columns

std::string painted(std::string_view text, Colour colour);  // with the escape sequences around it

}  // namespace millwright
