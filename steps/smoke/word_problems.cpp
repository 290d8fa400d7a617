#include "steps/smoke/word_problems.hpp"

#include <array>
#include <cctype>
#include <cstdint>
#include <set>

#include "orchestrator/base/text.hpp"

namespace millwright {
namespace {

// Digits beyond these are no answer to anything that is asked here.
constexpr std::size_t kMostDigits = 12;

struct Template {
  const char* text;  // {n} a name; {a}, {b}, {c} numbers
  long (*answer)(long a, long b, long c);
  long low_a, high_a, low_b, high_b, low_c, high_c;
};

// Two steps of arithmetic each; ranges keep every intermediate result positive and whole.
constexpr std::array<Template, 10> kTemplates = {{
    {"{n} stacks {a} crates with {b} lamps in each and then takes {c} lamps out again. How many lamps are left?",
     [](long a, long b, long c) { return a * b - c; }, 3, 12, 6, 15, 2, 17},
    {"A ferry makes {a} crossings a day and carries {b} cars each time. After {c} days, how many cars has it carried?",
     [](long a, long b, long c) { return a * b * c; }, 2, 6, 11, 40, 2, 7},
    {"{n} reads {a} pages on Monday, {b} on Tuesday, twice as many on Wednesday as on Tuesday, and {c} on Thursday. "
     "How "
     "many pages are that in all?",
     [](long a, long b, long c) { return a + 3 * b + c; }, 12, 60, 5, 30, 2, 9},
    {"A tank holds {a} litres. {n} fills in {b} buckets of {c} litres each on top. How many litres are in it now?",
     [](long a, long b, long c) { return a + b * c; }, 20, 200, 3, 14, 4, 12},
    {"{n} earns {a} coins an hour, works {b} hours and spends {c} coins on lunch. How many coins remain?",
     [](long a, long b, long c) { return a * b - c; }, 9, 25, 3, 9, 4, 20},
    {"A baker makes {a} trays of {b} rolls, shares all of them out among {b} shops, the same for each, and then brings "
     "every shop {c} rolls more. How many rolls does one shop have?",
     [](long a, long, long c) { return a + c; }, 6, 30, 3, 9, 2, 12},
    {"There are {a} rows of {b} seats in a hall, and {c} seats are broken. How many people can sit there?",
     [](long a, long b, long c) { return a * b - c; }, 8, 24, 10, 30, 3, 40},
    {"{n} walks {a} metres to the well and back again, {b} times, and then {c} metres home. How many metres is that?",
     [](long a, long b, long c) { return 2 * a * b + c; }, 15, 90, 2, 6, 10, 95},
    {"A rope of {a} metres is cut into {b} pieces of {c} metres each, and the rest is kept. How long is the rest, in "
     "metres?",
     [](long a, long b, long c) { return a - b * c; }, 120, 200, 3, 9, 4, 12},
    {"{n} has {a} red beads, {b} more blue beads than red ones, and {c} green beads. How many beads are that together?",
     [](long a, long b, long c) { return 2 * a + b + c; }, 7, 45, 3, 20, 5, 38},
}};

constexpr std::array<const char*, 8> kNames = {"Ines", "Tomas", "Wanja", "Leila", "Bruno", "Noor", "Piet", "Salome"};

// Numerical Recipes' constants; any fixed sequence will do.
class Sequence {
 public:
  long between(long low, long high) {
    state_ = state_ * 1664525u + 1013904223u;
    return low + static_cast<long>((state_ >> 8) % static_cast<std::uint32_t>(high - low + 1));
  }

 private:
  std::uint32_t state_ = 20261201;
};

}  // namespace

std::vector<WordProblem> word_problems(int count) {
  std::vector<WordProblem> out;
  std::set<std::string> asked;
  Sequence numbers;
  for (std::size_t i = 0; out.size() < static_cast<std::size_t>(count); ++i) {
    const Template& one = kTemplates.at(i % kTemplates.size());
    const long a = numbers.between(one.low_a, one.high_a);
    const long b = numbers.between(one.low_b, one.high_b);
    const long c = numbers.between(one.low_c, one.high_c);
    std::string text = replace_all(one.text, "{n}", kNames.at(i % kNames.size()));
    text = replace_all(std::move(text), "{a}", std::to_string(a));
    text = replace_all(std::move(text), "{b}", std::to_string(b));
    text = replace_all(std::move(text), "{c}", std::to_string(c));
    if (!asked.insert(text).second) continue;
    out.push_back({std::move(text), one.answer(a, b, c)});
  }
  return out;
}

std::optional<long> last_number(std::string_view text) {
  const auto digit = [&](std::size_t at) {
    return at < text.size() && std::isdigit(static_cast<unsigned char>(text[at])) != 0;
  };
  std::size_t end = text.size();
  while (end > 0 && !digit(end - 1)) --end;
  if (end == 0) return std::nullopt;
  std::string digits;
  std::size_t begin = end;
  // A comma between groups of three belongs to the number.
  while (begin > 0) {
    const bool group = (text[begin - 1] == ',' || text[begin - 1] == '\'') && begin >= 2 && digit(begin - 2) &&
                       digits.size() % 3 == 0 && !digits.empty();
    if (!digit(begin - 1) && !group) break;
    --begin;
    if (!group) digits.insert(digits.begin(), text[begin]);
  }
  if (begin > 0 && text[begin - 1] == '.' && begin >= 2 && digit(begin - 2)) {
    // "12.00" is 12; "12.5" is no whole number.
    if (digits.find_first_not_of('0') != std::string::npos) return std::nullopt;
    return last_number(text.substr(0, begin - 1));
  }
  if (digits.size() > kMostDigits) return std::nullopt;
  const long value = std::stol(digits);
  return begin > 0 && text[begin - 1] == '-' && (begin < 2 || !digit(begin - 2)) ? -value : value;
}

}  // namespace millwright
