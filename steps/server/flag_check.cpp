// Flags that a version of an engine does not have, found before anything is started.
#include <fmt/format.h>

#include <algorithm>
#include <regex>
#include <set>

#include "orchestrator/base/text.hpp"
#include "steps/server/launch_command.hpp"
#include "steps/server/planner/plan.hpp"

namespace millwright {

namespace {

// "--ctx-size=4096" and "--compilation-config.level" are about ctx-size and compilation-config.
std::string name_of(const std::string& word) {
  const std::string no_dashes = word.substr(std::min(word.find_first_not_of('-'), word.size()));
  return no_dashes.substr(0, no_dashes.find_first_of("=."));
}

bool is_short(const std::string& word) { return word.size() > 1 && word[0] == '-' && word[1] != '-'; }

bool is_flag(const std::string& word) {
  const std::size_t at = word.find_first_not_of('-');
  // A negative number is a value.
  return !word.empty() && word[0] == '-' && at != std::string::npos && (word[at] < '0' || word[at] > '9');
}

class FlagsOfData final : public KnownFlags {
 public:
  FlagsOfData(planner::FlagTable table, std::optional<planner::EngineFacts> facts, std::string engine, bool underscores)
      : table_(std::move(table)), facts_(std::move(facts)), engine_(std::move(engine)), underscores_(underscores) {}

  std::string complaint(const std::string& word, std::string& hint) const override {
    const std::string name = name_of(word);
    // "-O3": a letter with its value.
    if (is_short(word) && name.size() > 1 && table_.find(name.substr(0, 1)).spelling == name.substr(0, 1)) return {};
    const planner::FlagTable::Found found = table_.find(name);
    if (!found.name.empty() && (underscores_ || name.find('_') == std::string::npos)) return {};
    if (!found.name.empty()) {
      hint = "it is spelled with dashes: --" + found.spelling;
    } else if (!found.near.empty()) {
      hint = (found.known_elsewhere ? "here it is called --" : "did you mean --") + found.near + "?";
      if (found.known_elsewhere) hint.pop_back();
    } else {
      hint = "see the engine's --help, or leave it out";
    }
    std::string message = engine_ + " has no flag " + word.substr(0, word.find('='));
    if (found.name.empty() && found.known_elsewhere && !found.versions.empty())
      message += " (versions " + found.versions + " have it)";
    return message;
  }

  std::string value_complaint(const std::string& word, const std::string& value, std::string& hint) const override {
    const planner::FlagTable::Found found = table_.find(name_of(word));
    // A part of a JSON setting ("--compilation-config.level"), or of a version that nobody has looked at yet.
    if (!facts_ || found.name.empty() || table_.newer_than_read() || word.find('.') < word.find('=')) return {};
    const auto wrong = planner::impossible_value(table_, *facts_, found.name, found.spelling, value);
    if (!wrong) return {};
    hint = wrong->hint;
    return wrong->message;
  }

 private:
  planner::FlagTable table_;
  std::optional<planner::EngineFacts> facts_;  // nothing where memory.yml does not cover the version
  std::string engine_;
  bool underscores_;
};

class FlagsOfLauncher final : public KnownFlags {
 public:
  FlagsOfLauncher(std::set<std::string> names, std::string engine)
      : names_(std::move(names)), engine_(std::move(engine)) {}

  std::string complaint(const std::string& word, std::string& hint) const override {
    const std::string flag = word.substr(0, word.find('='));
    if (names_.count(flag) != 0) return {};
    // As Python's argparse has it: any prefix that only one flag has.
    std::vector<std::string> begun;
    for (const std::string& name : names_) {
      if (starts_with(name, flag) && starts_with(flag, "--")) begun.push_back(name);
    }
    if (begun.size() == 1) return {};
    const std::vector<std::string> all(names_.begin(), names_.end());
    const auto near = nearest(flag, all);
    hint = near ? "did you mean " + *near + "?" : "installed this way it has " + join(all, " ");
    return engine_ + ", installed as a wheel, has no flag " + flag;
  }

 private:
  std::set<std::string> names_;
  std::string engine_;
};

}  // namespace

std::unique_ptr<KnownFlags> engine_flags(const Knowledge& knowledge, const EngineProfile& profile,
                                         const std::string& version) {
  const auto parsed = Version::parse(version);
  if (!parsed) return nullptr;
  auto table = planner::FlagTable::load(knowledge, profile.id, *parsed);
  if (!table) return nullptr;
  auto facts = planner::engine_facts(knowledge, profile.id, version);
  return std::make_unique<FlagsOfData>(std::move(*table), facts ? std::optional(std::move(*facts)) : std::nullopt,
                                       profile.title + " " + version, profile.id == "vllm");
}

std::unique_ptr<KnownFlags> launcher_flags(const EngineProfile& profile, const std::string& version,
                                           const std::string& launcher) {
  static const std::regex argument("\\.add_argument\\(([^)]*)\\)");
  static const std::regex name("[\"'](--?[A-Za-z][A-Za-z0-9-]*)[\"']");
  std::set<std::string> names;
  for (std::sregex_iterator call(launcher.begin(), launcher.end(), argument), end; call != end; ++call) {
    const std::string inside = (*call)[1].str();
    for (std::sregex_iterator found(inside.begin(), inside.end(), name); found != end; ++found)
      names.insert((*found)[1].str());
  }
  if (names.empty()) return nullptr;  // it hands all its words on
  return std::make_unique<FlagsOfLauncher>(std::move(names), profile.title + " " + version);
}

std::vector<Error> unknown_flags(const KnownFlags& known, const std::vector<CommandPart>& parts) {
  std::vector<Error> errors;
  for (const CommandPart& part : parts) {
    for (std::size_t i = 0; i < part.words.size(); ++i) {
      const std::string& word = part.words[i];
      if (!is_flag(word)) continue;
      std::string hint;
      std::string wrong = known.complaint(word, hint);
      const bool unknown = !wrong.empty();
      const std::size_t equals = word.find('=');
      if (!unknown && equals != std::string::npos) {
        wrong = known.value_complaint(word, word.substr(equals + 1), hint);
      } else if (!unknown && i + 1 < part.words.size() && !is_flag(part.words[i + 1])) {
        wrong = known.value_complaint(word, part.words[i + 1], hint);
      }
      if (wrong.empty()) continue;
      Error error =
          make_error(ErrorKind::invalid, wrong).with_class(unknown ? "flag_unknown" : "flag_invalid").with_hint(hint);
      error.detail = part.input;
      errors.push_back(std::move(error));
    }
  }
  return errors;
}

std::vector<Error> forbidden_flags(const std::vector<std::string>& words) {
  std::vector<Error> errors;
  for (const std::string& word : words) {
    if (!is_flag(word) || replace_all(name_of(word), "_", "-") != "api-key") continue;
    Error error = make_error(ErrorKind::invalid, "a key among `extra_flags` would be seen by everybody on the node")
                      .with_hint("give it as the input api_key, a !secret");
    error.detail = "extra_flags";
    errors.push_back(std::move(error));
  }
  return errors;
}

}  // namespace millwright
