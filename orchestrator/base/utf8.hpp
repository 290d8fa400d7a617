// UTF-8 encoding. Safe for concurrent use.
#pragma once

#include <string>

namespace millwright {

// Appends one code point, at most 0x10FFFF; surrogates are written as they are, three bytes each.
void append_utf8(std::string& out, unsigned long code);

}  // namespace millwright
