#include "orchestrator/report/html_text.hpp"

#include <algorithm>
#include <array>

#include "orchestrator/base/text.hpp"
#include "orchestrator/base/units.hpp"
#include "orchestrator/report/text_layout.hpp"

namespace millwright {
namespace {

void append_escaped(std::string& out, std::string_view line) {
  for (const char c : line) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
}

}  // namespace

std::string html(std::string_view text) {
  std::string out;
  out.reserve(text.size() + text.size() / 8);
  bool first = true;
  for (const std::string& line : split(text, '\n')) {
    if (!first) out += '\n';
    first = false;
    append_escaped(out, printable(line));
  }
  return out;
}

std::string folded(std::string_view title, std::string_view text) {
  if (trim(text).empty()) return "";
  return "<details><summary>" + html(title) + "</summary><pre>" + html(text) + "</pre></details>\n";
}

std::string html_duration(std::int64_t milliseconds) {
  return milliseconds <= 0 ? std::string() : format_duration(Milliseconds(milliseconds));
}

std::string_view tone(std::string_view state) {
  constexpr std::array good = {"ok", "pass", "undone", "cured", "as before", "done"};
  constexpr std::array changed = {"changed", "change", "remedy", "running"};
  constexpr std::array bad = {"failed", "fail", "irreversible"};
  constexpr std::array warn = {"unreachable", "degraded", "inconclusive", "refused",     "cancelled",
                               "retry",       "warning",  "rollback",     "interrupted", "ignored"};
  const auto among = [&](const auto& list) { return std::find(list.begin(), list.end(), state) != list.end(); };
  return among(good) ? "good" : among(changed) ? "new" : among(bad) ? "bad" : among(warn) ? "warn" : "mute";
}

std::string badge(std::string_view state) {
  return "<span class=\"badge " + std::string(tone(state)) + "\">" + html(state) + "</span>";
}

}  // namespace millwright
