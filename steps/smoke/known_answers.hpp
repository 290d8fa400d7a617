// Whether an answer holds what was to be answered, however it is worded.
//
// Pure functions; safe from any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace millwright {

// Lower case, punctuation and markup as blanks, English number words up to twenty as digits, one blank between words.
std::string normal_form(std::string_view text);

// One of the expected phrases occurs as whole words.
bool holds_answer(std::string_view answer, const std::vector<std::string>& expected);

}  // namespace millwright
