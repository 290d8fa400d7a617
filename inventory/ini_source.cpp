#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>

#include "inventory/builder.hpp"
#include "inventory/host_range.hpp"
#include "inventory/ini_words.hpp"
#include "inventory/python_literal.hpp"
#include "orchestrator/base/text.hpp"

namespace millwright {
namespace {

enum class Section { hosts, vars, children };

struct Line {
  std::string text;  // trimmed
  int number = 0;
  int column = 1;  // of the text's first byte
  std::string whole;
};

class IniReader {
 public:
  IniReader(std::string path, InventoryBuilder& builder) : path_(std::move(path)), builder_(builder) {}

  void read(const std::string& text) {
    int number = 0;
    for (std::string& whole : split_lines(text)) {
      ++number;
      if (!whole.empty() && whole.back() == '\r') whole.pop_back();
      const std::string_view trimmed = trim(whole);
      if (trimmed.empty() || trimmed[0] == '#' || trimmed[0] == ';') continue;
      line_ = {std::string(trimmed), number, static_cast<int>(trimmed.data() - whole.data()) + 1, whole};
      if (trimmed[0] == '[' && header()) continue;
      content();
    }
    report_undefined();
  }

 private:
  SourceMark mark(std::size_t at, std::size_t length) const {
    return {path_, line_.number, line_.column + static_cast<int>(at),
            static_cast<int>(std::max<std::size_t>(length, 1)), line_.whole};
  }
  SourceMark whole_line() const { return mark(0, line_.text.size()); }

  // "[group]", "[group:vars]", "[group:children]", with nothing but a comment behind. "[1:3]" alone is a host range.
  bool header() {
    const std::string& text = line_.text;
    const std::size_t close = text.find(']');
    const std::string_view behind = close == std::string::npos ? "" : trim(std::string_view(text).substr(close + 1));
    const bool comment = behind.empty() || behind[0] == '#';
    const std::string inside = close == std::string::npos ? "" : text.substr(1, close - 1);
    const std::size_t colon = inside.find(':');
    const std::string name = inside.substr(0, colon);
    const std::string kind = colon == std::string::npos ? "hosts" : inside.substr(colon + 1);
    const bool bad_name = name.empty() || name.find_first_of(" \t") != std::string::npos;
    const bool bad_kind = kind.empty() || !std::all_of(kind.begin(), kind.end(), [](unsigned char c) {
                            return std::isalnum(c) != 0 || c == '_';
                          });
    if (close == std::string::npos || !comment || bad_name || bad_kind) {
      if (text.back() != ']') {
        if (close == std::string::npos) {
          builder_.report(whole_line(), "this section header lacks its ']'");
          return true;
        }
        return false;  // "[1:3].example.com" is a range of hosts
      }
      builder_.report(whole_line(), fmt::format("'{}' is no section header", text),
                      "write [group], [group:vars] or [group:children], without blanks");
      return true;
    }
    open_section(name, kind, colon);
    return true;
  }

  void open_section(const std::string& name, const std::string& kind, std::size_t colon) {
    const SourceMark name_mark = mark(1, name.size());
    group_ = name;
    if (kind == "hosts") {
      section_ = Section::hosts;
    } else if (kind == "vars") {
      section_ = Section::vars;
    } else if (kind == "children") {
      section_ = Section::children;
    } else {
      const auto near = nearest(kind, {"hosts", "vars", "children"});
      builder_.report(mark(colon + 2, kind.size()), fmt::format("section [{}:{}] has an unknown type", name, kind),
                      near ? fmt::format("did you mean '{}'?", *near) : "known are vars and children");
      section_ = std::nullopt;
    }
    const bool known = builder_.has_group(name);
    builder_.add_group(name, name_mark);
    if (section_ == Section::vars) {
      if (!known) vars_only_.try_emplace(name, name_mark);
      return;
    }
    vars_only_.erase(name);
    const auto waiting = pending_.find(name);
    if (waiting == pending_.end()) return;
    for (const auto& [parent, place] : waiting->second) builder_.add_child(parent, name, place);
    pending_.erase(waiting);
  }

  void content() {
    if (!section_) return;  // the section itself was refused
    if (*section_ == Section::hosts) {
      hosts();
    } else if (*section_ == Section::vars) {
      variable();
    } else {
      child();
    }
  }

  void child() {
    const std::size_t end = line_.text.find_first_of(" \t#");
    const std::string name = line_.text.substr(0, end);
    const std::string_view behind =
        end == std::string::npos ? std::string_view() : trim(std::string_view(line_.text).substr(end));
    if (name.empty() || name.find_first_of(":]") != std::string::npos || !(behind.empty() || behind[0] == '#')) {
      builder_.report(whole_line(), fmt::format("expected one group name, got '{}'", line_.text),
                      fmt::format("[{}:children] takes a group a line, without variables", group_));
      return;
    }
    const SourceMark place = mark(0, name.size());
    if (builder_.has_group(name)) {
      builder_.add_child(group_, name, place);
    } else {
      pending_[name].emplace_back(group_, place);
    }
  }

  void variable() {
    const std::size_t equals = line_.text.find('=');
    if (equals == std::string::npos) {
      builder_.report(whole_line(), fmt::format("expected name=value, got '{}'", line_.text),
                      fmt::format("[{}:vars] takes a variable a line; hosts belong under [{}]", group_, group_));
      return;
    }
    const std::string_view text = line_.text;
    const std::string_view raw = text.substr(equals + 1);
    const std::string_view value = trim(raw);
    const std::size_t at = value.empty() ? equals : static_cast<std::size_t>(value.data() - text.data());
    builder_.set_group_variable(group_, {std::string(trim(text.substr(0, equals))), ini_value(value),
                                         mark(at, value.size()), path_, PlainNames::variables});
  }

  void hosts() {
    const auto words = split_ini_words(line_.text);
    if (!words) {
      builder_.report(whole_line(), words.error().message, words.error().hint);
      return;
    }
    if (words->empty()) return;
    const IniWord& first = words->front();
    const auto entry = parse_host_entry(first.text);
    if (!entry) {
      Error error = entry.error();
      builder_.report(std::move(error).at(mark(first.at, first.length)));
      return;
    }
    if (!good_entry(first, *entry)) return;
    std::vector<Definition> definitions;
    for (std::size_t i = 1; i < words->size(); ++i) {
      const IniWord& word = (*words)[i];
      const std::size_t equals = word.text.find('=');
      if (equals == std::string::npos) {
        builder_.report(mark(word.at, word.length), fmt::format("expected name=value, got '{}'", word.text),
                        "a host line is: name var=value var='value with blanks'; one host a line");
        continue;
      }
      definitions.push_back({word.text.substr(0, equals), ini_value(std::string_view(word.text).substr(equals + 1)),
                             mark(word.at, word.length), path_, PlainNames::variables});
    }
    for (const std::string& name : entry->names) {
      add_host(builder_, {name, group_, entry->port, path_, PlainNames::variables}, mark(first.at, first.length));
      if (!entry->range) check_twice(name, definitions);
      for (const Definition& definition : definitions) builder_.set_host_variable(name, definition);
    }
  }

  bool good_entry(const IniWord& word, const HostEntry& entry) {
    if (ends_with(word.text, ":") && !entry.port) {
      builder_.report(mark(word.at, word.length), fmt::format("'{}' ends in a colon", word.text),
                      "a colon is for a port: name:2222. If this is YAML, call the file .yml");
      return false;
    }
    if (word.text == "---") {
      builder_.report(mark(word.at, word.length), "'---' begins YAML, but this file is read as INI",
                      "call the file .yml");
      return false;
    }
    return true;
  }

  // Ansible lets the later of two lines win without a word. Over a range that is how one host gets its own value; of
  // one name twice in a section it is a slip.
  void check_twice(const std::string& name, const std::vector<Definition>& definitions) {
    auto& seen = seen_[{group_, name}];
    for (const Definition& definition : definitions) {
      const auto [earlier, added] = seen.try_emplace(definition.name, definition);
      const bool same_line = !added && earlier->second.mark.line == definition.mark.line;
      if (same_line) earlier->second = definition;
      if (added || same_line || earlier->second.value == definition.value) continue;
      builder_.report(
          definition.mark,
          fmt::format("host '{}' is listed twice in [{}], with two values of {}", name, group_, definition.name),
          fmt::format("the other one is on line {}", earlier->second.mark.line));
    }
  }

  void report_undefined() {
    std::vector<std::string> known;
    for (const std::string& name : builder_.group_names()) {
      if (vars_only_.count(name) == 0) known.push_back(name);
    }
    const auto hint = [&](const std::string& name) {
      const auto near = nearest(name, known);
      return near ? fmt::format("did you mean '{}'?", *near) : fmt::format("add a section [{}]", name);
    };
    for (const auto& [name, parents] : pending_) {
      for (const auto& [parent, place] : parents)
        builder_.report(place, fmt::format("[{}:children] names the group '{}', which is not defined", parent, name),
                        hint(name));
    }
    for (const auto& [name, place] : vars_only_)
      builder_.report(place, fmt::format("[{}:vars] is for a group that is not defined", name), hint(name));
  }

  std::string path_;
  InventoryBuilder& builder_;
  Line line_;
  std::string group_ = "ungrouped";
  std::optional<Section> section_ = Section::hosts;
  std::map<std::string, std::vector<std::pair<std::string, SourceMark>>> pending_;  // child -> parents
  std::map<std::string, SourceMark> vars_only_;
  std::map<std::pair<std::string, std::string>, std::map<std::string, Definition>> seen_;
};

}  // namespace

void read_ini_source(const std::string& path, const std::string& text, InventoryBuilder& builder) {
  IniReader(path, builder).read(text);
}

void read_host_list(const std::string& list, InventoryBuilder& builder) {
  for (const std::string& part : split(list, ',')) {
    const std::string text(trim(part));
    if (text.empty()) continue;
    const SourceMark place{"-i " + list, 1, static_cast<int>(list.find(text)) + 1, static_cast<int>(text.size()), list};
    const auto entry = parse_host_entry(text);
    if (!entry) {
      Error error = entry.error();
      builder.report(std::move(error).at(place));
      continue;
    }
    for (const std::string& name : entry->names)
      add_host(builder, {name, "ungrouped", entry->port, "the command line", PlainNames::variables}, place);
  }
}

}  // namespace millwright
