// Arithmetic in words: questions of our own, made from templates, with computed answers. The same ones every time, so
// that two scores of one model can be compared. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace millwright {

struct WordProblem {
  std::string ask;
  long answer = 0;
};

// The first `count` of them, all different.
std::vector<WordProblem> word_problems(int count);

// The last whole number in a text: "so 3 x 4 = 1,250 apples." is 1250. Nothing where there is none.
std::optional<long> last_number(std::string_view text);

}  // namespace millwright
