// UTF-8 as it really comes: valid text, and text that says where it was not.
//
// Pure functions; safe from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace millwright {

struct CleanText {
  std::string text;               // valid UTF-8; each invalid sequence is one U+FFFD
  std::size_t invalid_bytes = 0;  // how many were replaced
};
CleanText clean_utf8(std::string_view bytes);

// The code points of valid UTF-8; invalid bytes become U+FFFD.
std::vector<char32_t> code_points(std::string_view text);

// At most `limit` bytes, cut between characters, with "..." when something is left out.
std::string cut_text(std::string_view text, std::size_t limit);

// For one line of a terminal or a log: control characters as \n, \t or \x1b, at most `limit` bytes.
std::string printable(std::string_view text, std::size_t limit);

}  // namespace millwright
