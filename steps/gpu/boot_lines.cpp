#include "steps/gpu/boot_lines.hpp"

#include <algorithm>
#include <regex>

#include "orchestrator/base/text.hpp"

namespace millwright::gpu {

namespace {

std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> out;
  std::string word;
  for (const char c : text + " ") {
    if (c != ' ' && c != '\t' && c != '\n' && c != '\r') {
      word += c;
    } else if (!word.empty()) {
      out.push_back(std::move(word));
      word.clear();
    }
  }
  return out;
}

bool is_vfio_options(const ModprobeLine& line) {
  return line.words.size() >= 3 && line.words[0] == "options" && module_name(line.words[1]) == "vfio_pci";
}

// Takes `drop` out of a comma separated list; the rest as it was written.
std::string without(std::string_view list, const std::function<bool(const std::string&)>& drop) {
  std::vector<std::string> kept;
  for (const std::string& one : split(list, ',')) {
    if (!drop(one)) kept.push_back(one);
  }
  return join(kept, ",");
}

std::string one_id(std::string_view entry) {
  const std::vector<std::string> parts = split(entry, ':');
  if (parts.size() < 2) return {};
  std::string id(trim(parts[0] + ":" + parts[1]));
  std::transform(id.begin(), id.end(), id.begin(), [](unsigned char c) { return std::tolower(c); });
  return id;
}

// Words of command lines, wherever they stand between blanks or quotes.
const std::regex& id_word() {
  static const std::regex form("vfio[-_]pci\\.ids=([^\\s\"']*)");
  return form;
}
const std::regex& blacklist_word() {
  static const std::regex form("(?:modprobe\\.blacklist|module_blacklist|rd\\.driver\\.blacklist)=([^\\s\"']*)");
  return form;
}

std::string clean_words(std::string text, const std::regex& form, const std::function<bool(const std::string&)>& drop) {
  std::string out;
  std::smatch found;
  while (std::regex_search(text, found, form)) {
    const std::string list = found[1].str();
    const std::string left = without(list, drop);
    std::string before = found.prefix().str();
    std::string after = found.suffix().str();
    if (left == list) {
      out += before + found.str();
    } else if (!left.empty()) {
      out += before + found.str().substr(0, found.str().size() - list.size()) + left;
    } else {
      // The word goes with one of the blanks around it.
      if (!before.empty() && before.back() == ' ') {
        before.pop_back();
      } else if (!after.empty() && after.front() == ' ') {
        after.erase(0, 1);
      }
      out += before;
    }
    text = std::move(after);
  }
  return out + text;
}

std::vector<std::string> lists_of(std::string_view text, const std::regex& form) {
  std::vector<std::string> out;
  const std::string all(text);
  for (std::sregex_iterator at(all.begin(), all.end(), form), end; at != end; ++at) {
    for (const std::string& one : split((*at)[1].str(), ',')) {
      if (!one.empty()) out.push_back(one);
    }
  }
  return out;
}

}  // namespace

std::string module_name(std::string_view name) {
  std::string out(name);
  std::replace(out.begin(), out.end(), '-', '_');
  return out;
}

std::vector<ModprobeLine> modprobe_lines(const std::string& content) {
  std::vector<ModprobeLine> out;
  std::string text, logical;
  for (const std::string& line : split_lines(content)) {
    text += line + "\n";
    if (ends_with(line, "\\")) {
      logical += line.substr(0, line.size() - 1);
      continue;
    }
    logical += line;
    const std::string meant(trim(logical));
    out.push_back({meant.empty() || meant.front() == '#' ? std::vector<std::string>() : words_of(meant), text});
    text.clear();
    logical.clear();
  }
  if (!text.empty()) out.push_back({words_of(logical), text});
  return out;
}

std::vector<std::string> vfio_ids_of(std::string_view value) {
  std::vector<std::string> out;
  for (const std::string& entry : split(value, ',')) {
    if (std::string id = one_id(entry); !id.empty()) out.push_back(std::move(id));
  }
  return out;
}

std::vector<std::string> vfio_ids_of(const ModprobeLine& line) {
  std::vector<std::string> out;
  if (!is_vfio_options(line)) return out;
  for (const std::string& word : line.words) {
    if (!starts_with(word, "ids=")) continue;
    for (std::string& id : vfio_ids_of(std::string_view(word).substr(4))) out.push_back(std::move(id));
  }
  return out;
}

std::string without_ids(const ModprobeLine& line, const std::set<std::string>& ids) {
  std::vector<std::string> kept;
  for (const std::string& word : line.words) {
    if (!starts_with(word, "ids=")) {
      kept.push_back(word);
      continue;
    }
    const std::string left =
        without(std::string_view(word).substr(4), [&](const std::string& one) { return ids.count(one_id(one)) != 0; });
    if (!left.empty()) kept.push_back("ids=" + left);
  }
  const bool says_something =
      std::any_of(kept.begin(), kept.end(), [](const std::string& word) { return starts_with(word, "ids="); });
  // disable_vga and the like are of no use without a device; other options may be.
  const bool only_vga = std::all_of(kept.begin() + std::min<std::ptrdiff_t>(2, std::ssize(kept)), kept.end(),
                                    [](const std::string& word) { return starts_with(word, "disable_vga="); });
  return !says_something && only_vga ? std::string() : join(kept, " ") + "\n";
}

std::vector<std::string> vfio_ids_of_command_line(std::string_view text) {
  std::vector<std::string> out;
  for (const std::string& entry : lists_of(text, id_word())) {
    if (std::string id = one_id(entry); !id.empty()) out.push_back(std::move(id));
  }
  return out;
}

std::vector<std::string> blacklist_of_command_line(std::string_view text) {
  std::vector<std::string> out;
  for (const std::string& one : lists_of(text, blacklist_word())) out.push_back(module_name(one));
  return out;
}

std::string clean_command_line(const std::string& text, const std::set<std::string>& ids,
                               const std::set<std::string>& modules) {
  std::string out;
  for (const std::string& line : split_lines(text)) {
    if (starts_with(trim(line), "#")) {
      out += line + "\n";
      continue;
    }
    std::string clean =
        clean_words(line, id_word(), [&](const std::string& one) { return ids.count(one_id(one)) != 0; });
    clean = clean_words(std::move(clean), blacklist_word(),
                        [&](const std::string& one) { return modules.count(module_name(one)) != 0; });
    out += clean + "\n";
  }
  return out;
}

}  // namespace millwright::gpu
