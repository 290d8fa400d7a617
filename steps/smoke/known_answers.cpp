#include "steps/smoke/known_answers.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "orchestrator/base/text.hpp"

namespace millwright {
namespace {

std::string as_digits(std::string word) {
  constexpr std::array<std::string_view, 21> names = {
      "zero",     "one",     "two",     "three",     "four",     "five",     "six",
      "seven",    "eight",   "nine",    "ten",       "eleven",   "twelve",   "thirteen",
      "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen", "twenty"};
  const auto found = std::find(names.begin(), names.end(), word);
  return found == names.end() ? word : std::to_string(found - names.begin());
}

}  // namespace

std::string normal_form(std::string_view text) {
  std::vector<std::string> words;
  std::string word;
  const auto finish_word = [&] {
    if (!word.empty()) words.push_back(as_digits(std::exchange(word, {})));
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const auto byte = static_cast<unsigned char>(c);
    if (c >= 'A' && c <= 'Z') {
      word += static_cast<char>(c + 32);
    } else if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')) {
      word += c;
    } else if (byte == 0xE2 && i + 2 < text.size()) {
      finish_word();  // U+2000..U+2FFF: quotes, dashes, narrow blanks, bullets
      i += 2;
    } else if (byte == 0xC2 && i + 1 < text.size()) {
      finish_word();  // U+0080..U+00BF: no-break blank, guillemets, degree sign
      ++i;
    } else if (byte >= 0x80) {
      word += c;
    } else {
      finish_word();
    }
  }
  finish_word();
  return join(words, " ");
}

bool holds_answer(std::string_view answer, const std::vector<std::string>& expected) {
  const std::string padded = " " + normal_form(answer) + " ";
  return std::any_of(expected.begin(), expected.end(), [&](const std::string& phrase) {
    const std::string wanted = normal_form(phrase);
    return !wanted.empty() && padded.find(" " + wanted + " ") != std::string::npos;
  });
}

}  // namespace millwright
