// What can be measured on a text without understanding it. docs/smoke.md says what each figure was on real outputs.
//
// Pure functions; safe from any thread. Texts beyond 16,384 characters are measured on their first and last half of it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace millwright {

struct TextSigns {
  std::size_t characters = 0;
  std::size_t letters = 0;
  std::size_t words = 0;
  // Share of the text (0..1) that a pattern of 1 to 100 characters covers which repeats at least 4 times at the end.
  double tail_repetition = 0;
  std::size_t tail_pattern = 0;  // length of that pattern in characters
  // The same for repetitions anywhere in the text, summed up.
  double repetition = 0;
  std::size_t longest_run = 0;             // of one character; blanks do not count, rulers and dots a quarter
  std::size_t longest_word = 0;            // in characters, between blanks
  double script_switches = 0;              // changes of script from letter to letter, per 100 letters
  std::size_t scripts = 0;                 // how many there are among the letters
  double foreign_letters = 0;              // share (0..1) of letters that are not Latin
  double distinct_words = 0;               // different words over words
  double common_words = 0;                 // share (0..1) of words that are among the most common English ones
  std::size_t replacement_characters = 0;  // U+FFFD
  std::size_t control_characters = 0;      // C0 and DEL without white space
};

TextSigns measure_text(std::string_view text);

// The first marker out of `markers` that is in the text (case matters), or empty.
std::string find_marker(std::string_view text, const std::vector<std::string>& markers);

}  // namespace millwright
