// parse_json: JSON as servers really write it.
#include <algorithm>

#include "steps/smoke/chat_reply.hpp"
#include "steps/smoke/utf8.hpp"

namespace millwright {
namespace {

constexpr std::size_t kMaxDepth = 100;

bool too_deep(std::string_view text) {
  std::size_t depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') {
        ++i;
      } else if (c == '"') {
        in_string = false;
      }
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      if (++depth > kMaxDepth) return true;
    } else if ((c == '}' || c == ']') && depth > 0) {
      --depth;
    }
  }
  return false;
}

// Python's json.dumps writes NaN, Infinity and -Infinity, which are no JSON. Outside of strings they become null.
std::string without_nan(std::string_view text, bool& found) {
  std::string out;
  out.reserve(text.size());
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      out += c;
      if (c == '\\' && i + 1 < text.size()) out += text[++i];
      if (c == '"') in_string = false;
      continue;
    }
    if (c == '"') in_string = true;
    bool replaced = false;
    for (const std::string_view word : {"NaN", "-Infinity", "Infinity"}) {
      if (text.substr(i, word.size()) == word) {
        out += "null";
        i += word.size() - 1;
        found = replaced = true;
        break;
      }
    }
    if (!replaced) out += c;
  }
  return out;
}

std::string describe_non_json(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\r\n");
  if (text.empty()) return "the body is empty";
  if (first == std::string_view::npos) return "the body is blank";
  if (text[first] == '<') return "the body is HTML or XML, not JSON";
  if (text[first] == '{' || text[first] == '[') return "the body is JSON that is cut short or damaged";
  return "the body is no JSON";
}

}  // namespace

std::optional<Value> parse_json(std::string_view bytes, std::vector<std::string>& surprises, std::string& why) {
  const CleanText clean = clean_utf8(bytes);
  if (clean.invalid_bytes > 0) {
    surprises.push_back(std::to_string(clean.invalid_bytes) + " bytes of the body are no valid UTF-8");
  }
  if (too_deep(clean.text)) {
    why = "the body is JSON nested deeper than " + std::to_string(kMaxDepth) + " levels";
    return std::nullopt;
  }
  Value value = Value::parse(clean.text, nullptr, false);
  if (value.is_discarded()) {
    bool had_nan = false;
    const std::string text = without_nan(clean.text, had_nan);
    if (had_nan) value = Value::parse(text, nullptr, false);
    if (value.is_discarded()) {
      why = describe_non_json(clean.text);
      return std::nullopt;
    }
    surprises.emplace_back("the body holds NaN or Infinity, which are no JSON");
  }
  return value;
}

}  // namespace millwright
