#include "steps/core/diff.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "orchestrator/base/text.hpp"

namespace millwright::core {

namespace {

constexpr std::size_t kContext = 3;
constexpr std::size_t kMostLines = 2000;

struct Line {
  char sign;  // ' ', '-', '+'
  std::string_view text;
};

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size() - 1) + 1;
    lines.push_back(text.substr(0, end));  // with its newline, so that a missing one is a difference
    text.remove_prefix(end);
  }
  return lines;
}

using Lines = std::vector<std::string_view>;

void append_middle(const Lines& a, const Lines& b, std::vector<Line>& out) {
  if (a.size() > kMostLines || b.size() > kMostLines) {
    for (const auto line : a) out.push_back({'-', line});
    for (const auto line : b) out.push_back({'+', line});
    return;
  }
  // longest[i][j]: of the longest common subsequence of a[i..] and b[j..]
  std::vector<std::vector<std::uint16_t>> longest(a.size() + 1, std::vector<std::uint16_t>(b.size() + 1, 0));
  for (std::size_t i = a.size(); i-- > 0;) {
    for (std::size_t j = b.size(); j-- > 0;) {
      longest[i][j] = a[i] == b[j] ? static_cast<std::uint16_t>(longest[i + 1][j + 1] + 1)
                                   : std::max(longest[i + 1][j], longest[i][j + 1]);
    }
  }
  std::size_t i = 0;
  std::size_t j = 0;
  while (i < a.size() || j < b.size()) {
    if (i < a.size() && j < b.size() && a[i] == b[j]) {
      out.push_back({' ', a[i]});
      ++i, ++j;
    } else if (i < a.size() && (j == b.size() || longest[i + 1][j] >= longest[i][j + 1])) {
      out.push_back({'-', a[i++]});
    } else {
      out.push_back({'+', b[j++]});
    }
  }
}

std::vector<Line> compare(std::string_view before, std::string_view after) {
  Lines a = lines_of(before);
  Lines b = lines_of(after);
  std::size_t head = 0;
  while (head < a.size() && head < b.size() && a[head] == b[head]) ++head;
  std::size_t tail = 0;
  while (tail + head < a.size() && tail + head < b.size() && a[a.size() - 1 - tail] == b[b.size() - 1 - tail]) ++tail;
  std::vector<Line> out;
  for (std::size_t i = 0; i < head; ++i) out.push_back({' ', a[i]});
  const auto middle = [head, tail](const Lines& all) {
    return Lines(all.begin() + static_cast<std::ptrdiff_t>(head), all.end() - static_cast<std::ptrdiff_t>(tail));
  };
  append_middle(middle(a), middle(b), out);
  for (std::size_t i = a.size() - tail; i < a.size(); ++i) out.push_back({' ', a[i]});
  return out;
}

std::string range(std::size_t first, std::size_t count) {
  if (count == 1) return fmt::format("{}", first + 1);
  return fmt::format("{},{}", count == 0 ? first : first + 1, count);
}

}  // namespace

bool is_text(std::string_view bytes) {
  for (std::size_t i = 0; i < bytes.size();) {
    const auto byte = static_cast<unsigned char>(bytes[i]);
    if (byte < 0x80) {
      if (byte == 0x7f || (byte < 0x20 && byte != '\t' && byte != '\n' && byte != '\r' && byte != '\f')) return false;
      ++i;
      continue;
    }
    const std::size_t more = byte >= 0xf0 ? 3 : byte >= 0xe0 ? 2 : 1;
    if (byte < 0xc2 || byte > 0xf4 || i + more >= bytes.size()) return false;
    std::uint32_t code = byte & (0x3fu >> more);
    for (std::size_t k = 1; k <= more; ++k) {
      const auto next = static_cast<unsigned char>(bytes[i + k]);
      if ((next & 0xc0) != 0x80) return false;
      code = (code << 6) | (next & 0x3fu);
    }
    const bool overlong = (more == 2 && code < 0x800) || (more == 3 && code < 0x10000);
    if (overlong || (code >= 0xd800 && code < 0xe000) || code > 0x10ffff) return false;
    i += more + 1;
  }
  return true;
}

std::string unified_diff(std::string_view before, std::string_view after, std::string_view path) {
  if (before == after) return {};
  const std::vector<Line> all = compare(before, after);
  std::string out = fmt::format("--- {0}\n+++ {0}\n", path);
  std::size_t old_line = 0;
  std::size_t new_line = 0;
  std::size_t at = 0;
  while (at < all.size()) {
    if (all[at].sign == ' ') {
      ++at, ++old_line, ++new_line;
      continue;
    }
    // A hunk ends where more than two contexts' worth of common lines follow.
    const std::size_t from = at - std::min({at, kContext, old_line, new_line});
    std::size_t end = at;
    for (std::size_t i = at; i < all.size() && i <= end + 2 * kContext; ++i) {
      if (all[i].sign != ' ') end = i;
    }
    const std::size_t to = std::min(end + 1 + kContext, all.size());
    const std::size_t lead = at - from;
    std::string body;
    std::size_t old_count = 0;
    std::size_t new_count = 0;
    for (std::size_t i = from; i < to; ++i) {
      if (all[i].sign != '+') ++old_count;
      if (all[i].sign != '-') ++new_count;
      body += all[i].sign;
      body += all[i].text;
      if (!ends_with(all[i].text, "\n")) body += "\n\\ No newline at end of file\n";
    }
    out += fmt::format("@@ -{} +{} @@\n{}", range(old_line - lead, old_count), range(new_line - lead, new_count), body);
    old_line += old_count - lead;
    new_line += new_count - lead;
    at = to;
  }
  return out;
}

LineCounts count_lines(std::string_view diff) {
  LineCounts counts;
  bool in_hunk = false;
  for (const std::string& line : split_lines(diff)) {
    if (starts_with(line, "@@")) in_hunk = true;
    if (!in_hunk) continue;
    if (starts_with(line, "-")) ++counts.removed;
    if (starts_with(line, "+")) ++counts.added;
  }
  return counts;
}

}  // namespace millwright::core
