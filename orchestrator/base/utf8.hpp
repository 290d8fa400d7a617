// UTF-8, written and checked. Safe for concurrent use.
#pragma once

#include <string>
#include <string_view>

namespace millwright {

// Appends one code point, at most 0x10FFFF; surrogates are written as they are, three bytes each.
void append_utf8(std::string& out, unsigned long code);

// Length in bytes of the sequence at the start of `text` (1 to 4), or 0 when it is malformed, overlong, a surrogate or
// beyond U+10FFFF (table 3-7 of the Unicode standard).
std::size_t utf8_sequence_length(std::string_view text);

bool is_utf8(std::string_view text);

}  // namespace millwright
