#include "steps/smoke/text_signs.hpp"

#include <algorithm>
#include <array>
#include <set>

#include "orchestrator/base/text.hpp"
#include "steps/smoke/utf8.hpp"

namespace millwright {
namespace {

constexpr std::size_t kMaxMeasured = 16384;
constexpr std::size_t kLongestPattern = 100;
constexpr std::size_t kRepeats = 4;  // fewer happen in healthy prose ("no, no, no")

enum class Script { none, latin, greek, cyrillic, hebrew, arabic, indic, thai, cjk, hangul, other };

struct Range {
  char32_t from, to;
  Script script;
};

// Unicode blocks (Blocks.txt); Han and kana count as one, since Japanese mixes them in every sentence.
constexpr std::array kRanges = {
    Range{0x41, 0x5A, Script::latin},      Range{0x61, 0x7A, Script::latin},      Range{0xC0, 0x24F, Script::latin},
    Range{0x370, 0x3FF, Script::greek},    Range{0x400, 0x52F, Script::cyrillic}, Range{0x530, 0x58F, Script::other},
    Range{0x590, 0x5FF, Script::hebrew},   Range{0x600, 0x77F, Script::arabic},   Range{0x900, 0xDFF, Script::indic},
    Range{0xE00, 0xE7F, Script::thai},     Range{0xE80, 0x109F, Script::other},   Range{0x10A0, 0x10FF, Script::other},
    Range{0x1100, 0x11FF, Script::hangul}, Range{0x1200, 0x1DFF, Script::other},  Range{0x1E00, 0x1EFF, Script::latin},
    Range{0x1F00, 0x1FFF, Script::greek},  Range{0x3040, 0x30FF, Script::cjk},    Range{0x3130, 0x318F, Script::hangul},
    Range{0x3400, 0x4DBF, Script::cjk},    Range{0x4E00, 0x9FFF, Script::cjk},    Range{0xA000, 0xABFF, Script::other},
    Range{0xAC00, 0xD7AF, Script::hangul}, Range{0xF900, 0xFAFF, Script::cjk},    Range{0xFB50, 0xFDFF, Script::arabic},
    Range{0xFE70, 0xFEFC, Script::arabic}, Range{0x20000, 0x2FFFF, Script::cjk},
};

Script script_of(char32_t point) {
  if (point == 0xD7 || point == 0xF7) return Script::none;
  for (const Range& range : kRanges) {
    if (point >= range.from && point <= range.to) return range.script;
  }
  return Script::none;
}

// The most common English words (any frequency list has them at its head).
const std::set<std::string, std::less<>>& common_words() {
  static const std::set<std::string, std::less<>> words = {
      "the", "be",    "is",  "are",   "was",   "to",    "of",   "and",  "a",   "in",  "that", "have",
      "has", "it",    "for", "not",   "on",    "with",  "he",   "as",   "you", "do",  "at",   "this",
      "but", "his",   "by",  "from",  "they",  "we",    "say",  "her",  "she", "or",  "an",   "will",
      "my",  "one",   "all", "would", "there", "their", "what", "so",   "up",  "out", "if",   "about",
      "who", "which", "can", "like",  "its",   "our",   "your", "when", "how", "i"};
  return words;
}

bool blank(char32_t c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r' || c == 0xA0 || c == 0x3000; }

// Rulers, table borders and dots repeat in healthy text.
bool ruler(char32_t c) {
  return c < 0x80 && std::string_view("-=_.*#|+~ \n").find(static_cast<char>(c)) != std::string_view::npos;
}

// Shared by both measures of repetition: whether a pattern says anything.
bool says_something(const std::vector<char32_t>& text, std::size_t end, std::size_t pattern) {
  return !std::all_of(text.begin() + static_cast<std::ptrdiff_t>(end - pattern),
                      text.begin() + static_cast<std::ptrdiff_t>(end), ruler);
}

std::vector<char32_t> measured_part(std::string_view text) {
  std::vector<char32_t> points = code_points(text);
  while (!points.empty() && blank(points.back())) points.pop_back();
  std::size_t start = 0;
  while (start < points.size() && blank(points[start])) ++start;
  points.erase(points.begin(), points.begin() + static_cast<std::ptrdiff_t>(start));
  if (points.size() > kMaxMeasured) {
    points.erase(points.begin() + kMaxMeasured / 2, points.end() - kMaxMeasured / 2);
  }
  return points;
}

// How many characters before `end` a pattern of this length covers by repeating up to it.
std::size_t covered_before(const std::vector<char32_t>& text, std::size_t end, std::size_t pattern) {
  std::size_t same = 0;
  while (end >= same + pattern + 1 && text[end - 1 - same] == text[end - 1 - same - pattern]) ++same;
  const std::size_t covered = same + pattern;
  return covered >= kRepeats * pattern ? covered : 0;
}

void measure_tail(const std::vector<char32_t>& text, TextSigns& signs) {
  // A budget may end in the middle of a repetition, so the last pattern need not be whole: counting single characters
  // backwards covers that.
  std::size_t best = 0;
  for (std::size_t pattern = 1; pattern <= std::min(kLongestPattern, text.size() / kRepeats); ++pattern) {
    const std::size_t covered = covered_before(text, text.size(), pattern);
    if (covered > best && says_something(text, text.size(), pattern)) {
      best = covered;
      signs.tail_pattern = pattern;
    }
  }
  if (!text.empty()) signs.tail_repetition = static_cast<double>(best) / static_cast<double>(text.size());
}

void measure_repetition(const std::vector<char32_t>& text, TextSigns& signs) {
  std::vector<char> covered(text.size(), 0);
  for (std::size_t pattern = 1; pattern <= std::min(kLongestPattern, text.size() / kRepeats); ++pattern) {
    std::size_t same = 0;
    for (std::size_t i = pattern; i <= text.size(); ++i) {
      if (i < text.size() && text[i] == text[i - pattern]) {
        ++same;
        continue;
      }
      if (same >= (kRepeats - 1) * pattern && says_something(text, i, pattern)) {
        std::fill(covered.begin() + static_cast<std::ptrdiff_t>(i - same - pattern),
                  covered.begin() + static_cast<std::ptrdiff_t>(i), char{1});
      }
      same = 0;
    }
  }
  const auto count = static_cast<double>(std::count(covered.begin(), covered.end(), char{1}));
  if (!text.empty()) signs.repetition = count / static_cast<double>(text.size());
}

void measure_letters(const std::vector<char32_t>& text, TextSigns& signs) {
  std::size_t run = 0, switches = 0, foreign = 0;
  Script last = Script::none;
  char32_t previous = 0;
  std::set<Script> scripts;
  for (const char32_t c : text) {
    run = c == previous ? run + 1 : 1;
    previous = c;
    if (!blank(c)) signs.longest_run = std::max(signs.longest_run, ruler(c) ? run / 4 : run);
    if (c == 0xFFFD) ++signs.replacement_characters;
    if ((c < 0x20 && !blank(c) && c != '\f' && c != '\v') || c == 0x7F) ++signs.control_characters;
    const Script script = script_of(c);
    if (script == Script::none) continue;
    ++signs.letters;
    if (script != Script::latin) ++foreign;
    if (last != Script::none && script != last) ++switches;
    last = script;
    scripts.insert(script);
  }
  signs.scripts = scripts.size();
  if (signs.letters > 0) {
    signs.script_switches = 100.0 * static_cast<double>(switches) / static_cast<double>(signs.letters);
    signs.foreign_letters = static_cast<double>(foreign) / static_cast<double>(signs.letters);
  }
}

void measure_words(const std::vector<char32_t>& text, TextSigns& signs) {
  std::set<std::u32string> distinct;
  std::size_t common = 0;
  std::u32string word;
  std::size_t length = 0;
  const auto finish_word = [&] {
    if (length > 0) signs.longest_word = std::max(signs.longest_word, length);
    if (!word.empty()) {
      ++signs.words;
      if (word.size() <= 8 && std::all_of(word.begin(), word.end(), [](char32_t c) { return c < 0x80; })) {
        if (common_words().count(std::string(word.begin(), word.end())) > 0) ++common;
      }
      distinct.insert(word);
    }
    word.clear();
    length = 0;
  };
  for (const char32_t c : text) {
    if (blank(c)) {
      finish_word();
      continue;
    }
    ++length;
    if (c >= 'A' && c <= 'Z') {
      word += c + 32;
    } else if (script_of(c) != Script::none || (c >= '0' && c <= '9')) {
      word += c;
    }
  }
  finish_word();
  if (signs.words > 0) {
    signs.distinct_words = static_cast<double>(distinct.size()) / static_cast<double>(signs.words);
    signs.common_words = static_cast<double>(common) / static_cast<double>(signs.words);
  }
}

}  // namespace

TextSigns measure_text(std::string_view text) {
  TextSigns signs;
  const std::vector<char32_t> points = measured_part(text);
  signs.characters = points.size();
  measure_tail(points, signs);
  measure_repetition(points, signs);
  measure_letters(points, signs);
  measure_words(points, signs);
  return signs;
}

std::string find_marker(std::string_view text, const std::vector<std::string>& markers) {
  for (const std::string& marker : markers) {
    if (!marker.empty() && text.find(marker) != std::string_view::npos) return marker;
  }
  return "";
}

}  // namespace millwright
