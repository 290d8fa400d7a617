#include "steps/smoke/remedies.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "orchestrator/base/text.hpp"
#include "orchestrator/base/units.hpp"

namespace millwright {
namespace {

constexpr std::string_view kLatest = "latest-known-good";

std::string text_of(const Value& object, const char* key) {
  if (!object.is_object()) return "";
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::vector<std::string> keys_of(const Value& object, const char* key) {
  std::vector<std::string> keys;
  if (!object.is_object() || !object.contains(key) || !object.at(key).is_object()) return keys;
  for (const auto& [name, value] : object.at(key).items()) keys.push_back(name);
  return keys;
}

std::vector<std::string> strings_of(const Value& object, const char* key) {
  std::vector<std::string> out;
  if (!object.is_object() || !object.contains(key) || !object.at(key).is_array()) return out;
  for (const Value& item : object.at(key)) {
    if (item.is_string()) out.push_back(item.get<std::string>());
  }
  return out;
}

bool contains(const std::vector<std::string>& list, std::string_view wanted) {
  return std::find(list.begin(), list.end(), wanted) != list.end();
}

// The engine notes "<id> <changed inputs as JSON>" for each remedy that it tried.
std::set<std::string> tried_versions(const std::vector<std::string>& tried) {
  std::set<std::string> versions;
  for (const std::string& entry : tried) {
    const std::size_t brace = entry.find(" {");
    if (brace == std::string::npos) continue;
    const Value changes = Value::parse(entry.substr(brace + 1), nullptr, false);
    if (const std::string version = text_of(changes, "version"); !version.empty()) versions.insert(version);
  }
  return versions;
}

// extra_flags without the named flags and the values that follow them; nothing when none of them is there.
std::optional<Value> without_flags(const std::vector<std::string>& now, const std::vector<std::string>& drop) {
  Value kept = Value::array();
  bool dropped = false;
  for (std::size_t i = 0; i < now.size(); ++i) {
    const std::string name = now[i].substr(0, now[i].find('='));
    if (!contains(drop, name)) {
      kept.push_back(now[i]);
      continue;
    }
    dropped = true;
    const bool value_follows = name == now[i] && i + 1 < now.size() && !starts_with(now[i + 1], "-");
    if (value_follows) ++i;
  }
  if (!dropped) return std::nullopt;
  return kept;
}

// Flags are added once; one that is there already with another value is replaced.
std::optional<Value> with_flags(std::vector<std::string> now, const std::vector<std::string>& add) {
  const auto at = std::search(now.begin(), now.end(), add.begin(), add.end());
  if (at != now.end()) return std::nullopt;
  Value flags = Value::array();
  if (const auto without = without_flags(now, {add.front()})) {
    flags = *without;
  } else {
    for (std::string& flag : now) flags.push_back(std::move(flag));
  }
  for (const std::string& flag : add) flags.push_back(flag);
  return flags;
}

bool is_given(const Value& inputs, const std::string& key) {
  return inputs.is_object() && inputs.contains(key) && !inputs.at(key).is_null() && inputs.at(key) != "";
}

// Whether a change leaves a step's inputs as they are; "" means not given.
bool changes_nothing(const Value& set, const Value& inputs) {
  for (const auto& [key, value] : set.items()) {
    const bool same = value == "" ? !is_given(inputs, key) : is_given(inputs, key) && inputs.at(key) == value;
    if (!same) return false;
  }
  return true;
}

// "0.32.0+cpu" is another build of 0.32.0, not a later version: builds are not exchanged for each other.
std::string build_of(const std::string& version) {
  const std::size_t plus = version.find('+');
  return plus == std::string::npos ? "" : version.substr(plus);
}

Error bad_row(const std::string& what) {
  return make_error(ErrorKind::invalid, "knowledge file remedies.yml: " + what);
}

}  // namespace

Result<std::unique_ptr<LadderAdvisor>> LadderAdvisor::from(const Knowledge& knowledge) {
  auto advisor = std::make_unique<LadderAdvisor>();
  try {
    for (const auto& [id, given] : knowledge.file("remedies").at("remedies").items()) {
      Row row{id,
              given.at("title"),
              given.at("kind"),
              given.value("engine", ""),
              given.value("versions", ""),
              given.value("device", ""),
              strings_of(given, "flags"),
              given.value("set", Value::object()),
              given.value("degrades", false)};
      const bool about_flags = row.kind == "add_flags" || row.kind == "drop_flags";
      if (about_flags && row.flags.empty()) return fail(bad_row(id + " has no flags"));
      if (row.kind == "set" && row.set.empty()) return fail(bad_row(id + " sets nothing"));
      advisor->rows_[id] = std::move(row);
    }
    const Value classes = knowledge.file("classes").value("classes", Value::object());
    for (const auto& [symptom, ladder] : knowledge.file("remedies").at("ladders").items()) {
      if (!classes.contains(symptom)) return fail(bad_row("class '" + symptom + "' is not in classes.yml"));
      for (const Value& id : ladder) {
        if (advisor->rows_.count(id.get<std::string>()) == 0) {
          return fail(
              bad_row("the ladder of " + symptom + " names the unknown remedy '" + id.get<std::string>() + "'"));
        }
        advisor->ladders_[symptom].push_back(id);
      }
    }
    const Value engines = knowledge.file("engines").value("engines", Value::object());
    for (const auto& [name, engine] : engines.items()) {
      Catalogue& catalogue = advisor->engines_[name];
      catalogue.installable = keys_of(engine, "sources");
      for (const Value& known : engine.value("known_good", Value::array())) {
        catalogue.known_good.push_back(known.at("version"));
      }
    }
  } catch (const Value::exception& problem) {
    return fail(bad_row(problem.what()));
  }
  return advisor;
}

const LadderAdvisor::Catalogue& LadderAdvisor::catalogue(const std::string& engine) const {
  static const Catalogue none;
  const auto found = engines_.find(engine);
  return found == engines_.end() ? none : found->second;
}

std::vector<std::string> LadderAdvisor::versions_on_offer(const RemedyQuery& query) const {
  std::vector<std::string> versions = keys_of(query.step_inputs, "sources");
  for (const std::string& version : catalogue(text_of(query.step_inputs, "engine")).installable) {
    if (!contains(versions, version)) versions.push_back(version);
  }
  return versions;
}

// What runs (or failed to): the step's output where there is one, else its input, resolved as the server step does.
std::string LadderAdvisor::current_version(const RemedyQuery& query) const {
  const std::string wanted = text_of(query.step_inputs, "version");
  if (!wanted.empty() && wanted != kLatest) return wanted;
  if (const std::string running = text_of(query.step_outputs, "version"); !running.empty()) return running;
  const std::vector<std::string> on_offer = versions_on_offer(query);
  for (const std::string& version : catalogue(text_of(query.step_inputs, "engine")).known_good) {
    if (contains(on_offer, version)) return version;
  }
  return "";
}

std::optional<Remedy> LadderAdvisor::change_version(const Row& row, const RemedyQuery& query) const {
  const std::string engine = text_of(query.step_inputs, "engine");
  const std::string current = current_version(query);
  const auto now = Version::parse(current);
  if (!now) return std::nullopt;
  const bool upwards = row.kind == "newer_version";
  const std::set<std::string> tried = tried_versions(query.tried);
  const std::vector<std::string>& known_good = catalogue(engine).known_good;
  struct Candidate {
    Version version;
    bool known;
  };
  std::optional<Candidate> best;
  for (const std::string& offered : versions_on_offer(query)) {
    const auto version = Version::parse(offered);
    if (!version || tried.count(offered) > 0 || build_of(offered) != build_of(current)) continue;
    if (upwards ? *version <= *now : *version >= *now) continue;
    const bool known = contains(known_good, offered);
    const bool nearer = best && (upwards ? *version < best->version : *version > best->version);
    if (!best || (known && !best->known) || (known == best->known && nearer)) best = Candidate{*version, known};
  }
  if (!best) return std::nullopt;
  Remedy remedy;
  remedy.title = fmt::format("{} {} -> {}", engine, current, best->version.text());
  remedy.set = {{"version", best->version.text()}};
  return remedy;
}

std::optional<Remedy> LadderAdvisor::apply(const Row& row, const RemedyQuery& query) const {
  const std::string engine = text_of(query.step_inputs, "engine");
  if (!row.engine.empty() && row.engine != engine) return std::nullopt;
  if (row.device == "cuda" && text_of(query.step_inputs, "device") == "cpu") return std::nullopt;
  if (!row.versions.empty()) {
    const auto version = Version::parse(current_version(query));
    if (!version || !version_matches(*version, row.versions).value_or(false)) return std::nullopt;
  }
  const bool about_version = row.kind == "newer_version" || row.kind == "older_version";
  if (!about_version && contains(query.tried, row.id)) return std::nullopt;
  std::optional<Remedy> remedy;
  if (about_version) {
    remedy = change_version(row, query);
  } else if (row.kind == "add_flags" || row.kind == "drop_flags") {
    const auto flags = row.kind == "add_flags" ? with_flags(strings_of(query.step_inputs, "extra_flags"), row.flags)
                                               : without_flags(strings_of(query.step_inputs, "extra_flags"), row.flags);
    if (flags) {
      remedy = Remedy{};
      remedy->title = row.title;
      remedy->set = {{"extra_flags", *flags}};
    }
  } else if (row.kind == "set" && !changes_nothing(row.set, query.step_inputs)) {
    remedy = Remedy{};
    remedy->title = row.title;
    remedy->set = row.set;
  } else if (row.kind == "previous_release") {
    const Value previous =
        query.step_outputs.is_object() ? query.step_outputs.value("previous_release", Value()) : Value();
    if (previous.is_number_integer()) {
      remedy = Remedy{};
      remedy->title = row.title;
      remedy->set = {{"release", previous}};
    }
  }
  if (!remedy) return std::nullopt;
  remedy->id = row.id;
  remedy->step_kind = "server";
  remedy->degrades = row.degrades;
  return remedy;
}

std::optional<Remedy> LadderAdvisor::next(const RemedyQuery& query) const {
  if (text_of(query.step_inputs, "engine").empty()) return std::nullopt;
  const auto ladder = ladders_.find(query.symptom_class);
  if (ladder == ladders_.end()) return std::nullopt;
  for (const std::string& id : ladder->second) {
    if (auto remedy = apply(rows_.at(id), query)) return remedy;
  }
  return std::nullopt;
}

}  // namespace millwright
