#include "steps/server/planner/engine_facts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "orchestrator/base/text.hpp"

namespace millwright::planner {

std::vector<std::string> planner_folders(const std::vector<std::string>& folders) {
  std::vector<std::string> out;
  for (const std::string& folder : folders) {
    out.push_back(folder);
    std::error_code failure;
    if (std::filesystem::is_directory(folder + "/planner", failure)) out.push_back(folder + "/planner");
  }
  return out;
}

double EngineFacts::number(const std::string& name) const {
  const auto found = set_.find(name);
  return found != set_.end() && found->second.is_number() ? found->second.get<double>() : 0;
}

bool EngineFacts::flag(const std::string& name) const {
  const auto found = set_.find(name);
  return found != set_.end() && found->second.is_boolean() && found->second.get<bool>();
}

std::string EngineFacts::text(const std::string& name) const {
  const auto found = set_.find(name);
  return found != set_.end() && found->second.is_string() ? found->second.get<std::string>() : std::string();
}

Range EngineFacts::range(const std::string& name) const {
  const Value& values = list(name);
  if (values.size() != 3) return Range::exactly(number(name));
  return {values[0].get<double>(), values[1].get<double>(), values[2].get<double>()};
}

std::vector<std::string> EngineFacts::launch() const {
  std::vector<std::string> out;
  for (const Value& word : list("launch")) out.push_back(word.get<std::string>());
  return out.empty() ? head_.value("launch", out) : out;
}

const Value& EngineFacts::list(const std::string& name) const {
  static const Value none = Value::array();
  const auto found = set_.find(name);
  return found != set_.end() && found->second.is_array() ? found->second : none;
}

bool EngineFacts::listed(const std::string& name, const std::string& word) const {
  const Value& values = list(name);
  return std::find(values.begin(), values.end(), Value(word)) != values.end();
}

namespace {

const Value& engines_of(const Knowledge& knowledge, const char* file) {
  static const Value none = Value::object();
  const Value& document = knowledge.file(file);
  const auto found = document.find("engines");
  return found == document.end() ? none : *found;
}

std::vector<std::string> keys_of(const Value& object) {
  std::vector<std::string> out;
  for (const auto& [name, value] : object.items()) out.push_back(name);
  return out;
}

}  // namespace

Result<EngineFacts> engine_facts(const Knowledge& knowledge, const std::string& engine, const std::string& version) {
  const Value& engines = engines_of(knowledge, "memory");
  const auto found = engines.find(engine);
  if (found == engines.end()) {
    const auto names = keys_of(engines);
    const auto near = nearest(engine, names);
    return fail(make_error(ErrorKind::usage, fmt::format("there is no engine '{}'", engine))
                    .with_hint(near ? fmt::format("did you mean '{}'?", *near) : "known are " + join(names, ", ")));
  }
  auto parsed = Version::parse(version.empty() ? found->at("newest").get<std::string>() : version);
  if (!parsed)
    return fail(make_error(ErrorKind::usage, fmt::format("'{}' is no version of {}", version, engine))
                    .with_hint("as in --engine sglang@0.5.9"));
  const auto covered = version_matches(*parsed, found->at("versions").get<std::string>());
  if (!covered) return fail(covered.error());
  if (!*covered)
    return fail(make_error(ErrorKind::usage, fmt::format("{} {} is older than what is known here ({})", engine, version,
                                                         found->at("versions").get<std::string>()))
                    .with_hint("its arithmetic was another one; name a version in that range"));
  std::map<std::string, Value> set;
  for (const Value& row : found->at("facts")) {
    const auto matches = version_matches(*parsed, row.at("versions").get<std::string>());
    if (!matches) return fail(matches.error());
    if (!*matches) continue;
    for (const auto& [name, value] : row.at("set").items()) set[name] = value;
  }
  return EngineFacts(engine, *parsed, *found, std::move(set));
}

namespace {

Result<std::vector<std::string>> choices_of(const Value& flag, const Version& version, bool was_read) {
  std::vector<std::string> out;
  for (const Value& row : flag.value("choices", Value::array())) {
    const auto matches = version_matches(version, row.value("versions", std::string(">=0")));
    if (!matches) return fail(matches.error());
    if (was_read && !*matches) continue;
    for (const Value& value : row.at("values")) {
      const auto text = value.get<std::string>();
      if (std::find(out.begin(), out.end(), text) == out.end()) out.push_back(text);
    }
  }
  return out;
}

enum class Read { this_one, between, newer };
// `version` is one that the data was read from, between two of them, or newer than all.
Read read_of(const Value& engine, const Version& version) {
  bool newer = true;
  for (const Value& one : engine.at("checked")) {
    const auto parsed = Version::parse(one.get<std::string>());
    if (parsed && *parsed == version) return Read::this_one;
    newer = newer && parsed && *parsed < version;
  }
  return newer ? Read::newer : Read::between;
}

}  // namespace

Result<FlagTable> FlagTable::load(const Knowledge& knowledge, const std::string& engine, const Version& version) {
  FlagTable out;
  out.prefixes_ = engine != "llama.cpp";
  out.negations_ = engine == "vllm";
  const Value& engines = engines_of(knowledge, "engine_flags");
  const auto found = engines.find(engine);
  if (found == engines.end()) return fail(ErrorKind::invalid, "engine_flags.yml says nothing of " + engine);
  const Read read = read_of(*found, version);
  out.newer_than_read_ = read == Read::newer;
  for (const Value& flag : found->at("flags")) {
    Row row;
    row.name = flag.at("name").get<std::string>();
    for (const std::string& other : flag.value("also", std::vector<std::string>{})) {
      const bool short_name = starts_with(other, "-");
      row.also.push_back(short_name ? other.substr(1) : other);
      if (short_name) row.one_dash.push_back(row.also.back());
    }
    auto choices = choices_of(flag, version, read != Read::between);
    if (!choices) return fail(choices.error());
    row.choices = std::move(*choices);
    const auto spans = flag.value("versions", std::vector<std::string>{});
    row.versions = join(spans, " or ");
    row.here = spans.empty();
    for (const std::string& span : spans) {
      const auto matches = version_matches(version, span);
      if (!matches) return fail(matches.error());
      row.here = row.here || *matches;
    }
    out.rows_.push_back(std::move(row));
  }
  return out;
}

namespace {

// A renamed flag keeps most of its words: mamba-radix-cache-strategy was mamba-scheduler-strategy.
std::string most_words_in_common(const std::string& wanted, const std::vector<std::string>& names) {
  const auto words = split(wanted, '-');
  std::string best;
  std::size_t most = 1;
  for (const std::string& name : names) {
    const auto others = split(name, '-');
    const auto common =
        static_cast<std::size_t>(std::count_if(words.begin(), words.end(), [&](const std::string& word) {
          return std::find(others.begin(), others.end(), word) != others.end();
        }));
    const bool same_start = !others.empty() && others.front() == words.front();
    if (same_start && common > most && 2 * common >= others.size()) most = common, best = name;
  }
  return best;
}

}  // namespace

FlagTable::Found FlagTable::find(const std::string& word) const {
  std::string wanted = word;
  wanted.erase(0, wanted.find_first_not_of('-') == std::string::npos ? wanted.size() : wanted.find_first_not_of('-'));
  wanted = replace_all(wanted, "_", "-");
  if (negations_ && starts_with(wanted, "no-")) {
    for (const Row& row : rows_) {
      if (row.here && row.name == wanted.substr(3)) return {wanted, wanted, "", false, row.versions};
    }
  }
  const auto named = [&](const Row& row) {
    return row.name == wanted || std::find(row.also.begin(), row.also.end(), wanted) != row.also.end();
  };
  const Row* elsewhere = nullptr;
  std::vector<std::string> names;
  std::vector<const Row*> begun;
  for (const Row& row : rows_) {
    if (named(row) && row.here) {
      const bool one_dash = std::find(row.one_dash.begin(), row.one_dash.end(), wanted) != row.one_dash.end();
      return {row.name, wanted, "", false, row.versions, one_dash};
    }
    if (named(row)) elsewhere = &row;
    if (!row.here) continue;
    names.push_back(row.name);
    names.insert(names.end(), row.also.begin(), row.also.end());
    const auto begins = [&](const std::string& name) { return starts_with(name, wanted); };
    if (begins(row.name) || std::any_of(row.also.begin(), row.also.end(), begins)) begun.push_back(&row);
  }
  if (prefixes_ && begun.size() == 1)
    return {begun.front()->name, begun.front()->name, "", false, begun.front()->versions};
  Found out;
  out.known_elsewhere = elsewhere != nullptr;
  if (elsewhere != nullptr) out.versions = elsewhere->versions;
  if (begun.size() > 1) {
    out.near = begun.front()->name;
  } else if (const auto near = nearest(wanted, names)) {
    out.near = *near;
  } else {
    out.near = most_words_in_common(wanted, names);
  }
  return out;
}

std::vector<std::string> FlagTable::choices(const std::string& name) const {
  for (const Row& row : rows_) {
    if (row.name == name && row.here) return row.choices;
  }
  return {};
}

}  // namespace millwright::planner
