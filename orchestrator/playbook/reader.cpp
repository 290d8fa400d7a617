#include "orchestrator/playbook/reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>

#include "orchestrator/base/text.hpp"
#include "orchestrator/base/units.hpp"

namespace millwright {
namespace {

bool is_word_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
}

// What people bring from other tools, by key.
constexpr std::array<std::pair<std::string_view, std::string_view>, 16> kElsewhere = {{
    {"loop", "foreach"},
    {"with_items", "foreach"},
    {"for_each", "foreach"},
    {"ignore_errors", "ignore_failure"},
    {"depends_on", "needs"},
    {"requires", "needs"},
    {"after", "needs"},
    {"if", "when"},
    {"module", "uses"},
    {"action", "uses"},
    {"kind", "uses"},
    {"args", "with"},
    {"tasks", "steps"},
    {"retries", "retry"},
    {"import_tasks", "include"},
    {"include_tasks", "include"},
}};

}  // namespace

std::string_view kind_name(const YamlNode& node) {
  switch (node.kind) {
    case YamlKind::null:
      return "nothing";
    case YamlKind::scalar:
      return "a scalar";
    case YamlKind::sequence:
      return "a list";
    case YamlKind::mapping:
      return "a mapping";
  }
  return "nothing";
}

void Reader::error(const SourceMark& mark, std::string message, std::string hint) {
  errors_.push_back(make_error(ErrorKind::invalid, std::move(message)).at(mark).with_hint(std::move(hint)));
}

void Reader::errors(std::vector<Error> more) {
  errors_.insert(errors_.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

std::string Reader::suggest(std::string_view word, const std::vector<std::string>& candidates, std::string otherwise) {
  if (suggestions_left_ <= 0) return otherwise;
  --suggestions_left_;
  const auto near = nearest(word, candidates);
  return near ? fmt::format("did you mean '{}'?", *near) : otherwise;
}

bool Reader::check_keys(const YamlNode& mapping, const std::vector<std::string>& allowed, std::string_view owner) {
  bool good = true;
  for (const auto& [key, value] : mapping.entries) {
    if (std::find(allowed.begin(), allowed.end(), key.text) != allowed.end()) continue;
    good = false;
    const auto known = std::find_if(kElsewhere.begin(), kElsewhere.end(), [&key = key, &allowed](const auto& pair) {
      return pair.first == key.text && std::find(allowed.begin(), allowed.end(), pair.second) != allowed.end();
    });
    error(key.mark, fmt::format("unknown key '{}' in {}", key.text, owner),
          known != kElsewhere.end() ? fmt::format("here it is called '{}'", known->second)
                                    : suggest(key.text, allowed, "it takes: " + join(allowed, ", ")));
  }
  return good;
}

bool Reader::is_mapping(const YamlNode& node, std::string_view what) {
  if (node.kind == YamlKind::mapping && node.tag.empty()) return true;
  error(node.mark, fmt::format("{} must be a mapping, not {}", what, kind_name(node)));
  return false;
}

std::optional<std::string> Reader::word(const YamlNode& node, std::string_view what) {
  if (node.kind != YamlKind::scalar || !node.tag.empty()) {
    error(node.mark, fmt::format("{} must be a text, not {}", what, kind_name(node)));
    return {};
  }
  if (node.text.find("{{") != std::string::npos) {
    error(node.mark, fmt::format("{} cannot be an expression", what), "it must be known before the run");
    return {};
  }
  if (trim(node.text).empty()) {
    error(node.mark, fmt::format("{} is empty", what));
    return {};
  }
  return node.text;
}

std::optional<std::string> Reader::name(const YamlNode& node, std::string_view what) {
  std::optional<std::string> text = word(node, what);
  if (!text) return {};
  const char first = (*text)[0];
  const bool starts_badly = first == '-' || (first >= '0' && first <= '9');
  if (!starts_badly && std::all_of(text->begin(), text->end(), is_word_character)) return text;
  error(node.mark, fmt::format("{} '{}' is no name", what, *text),
        "names have letters, digits, _ and -, and begin with a letter or _");
  return {};
}

std::optional<bool> Reader::boolean(const YamlNode& node, std::string_view what) {
  const Value value = node.to_value();
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_string() && !node.quoted) {
    if (value == "yes" || value == "on") return true;
    if (value == "no" || value == "off") return false;
  }
  error(node.mark, fmt::format("{} must be true or false", what));
  return {};
}

std::optional<int> Reader::integer(const YamlNode& node, std::string_view what, int least) {
  const Value value = node.to_value();
  if (value.is_number_integer() && value >= least && value <= 1'000'000'000) return value.get<int>();
  error(node.mark, fmt::format("{} must be a whole number, at least {}", what, least));
  return {};
}

std::optional<double> Reader::number(const YamlNode& node, std::string_view what, double least) {
  const Value value = node.to_value();
  if (value.is_number() && value.get<double>() >= least && value.get<double>() <= 1e9) return value.get<double>();
  error(node.mark, fmt::format("{} must be a number, at least {}", what, least));
  return {};
}

std::optional<Milliseconds> Reader::duration(const YamlNode& node, std::string_view what) {
  const std::optional<std::string> text = word(node, what);
  if (!text) return {};
  const Result<Milliseconds> parsed = parse_duration(*text);
  if (parsed) return *parsed;
  error(node.mark, fmt::format("{}: {}", what, parsed.error().message), "write it as 90s, 1.5m, 2h or 1h30m");
  return {};
}

std::vector<std::string> Reader::words(const YamlNode& node, std::string_view what) {
  std::vector<std::string> out;
  if (node.kind != YamlKind::sequence) {
    if (auto text = word(node, what)) out.push_back(std::move(*text));
    return out;
  }
  for (const YamlNode& item : node.items) {
    if (auto text = word(item, what)) out.push_back(std::move(*text));
  }
  return out;
}

std::optional<Template> Reader::compiled(const YamlNode& node) {
  auto out = Template::compile(node);
  if (out) return std::move(*out);
  errors(std::move(out.error()));
  return {};
}

}  // namespace millwright
