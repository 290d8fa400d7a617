#include "tests/support/replay_case.hpp"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <set>
#include <stdexcept>

#include "orchestrator/base/text.hpp"
#include "orchestrator/base/yaml.hpp"
#include "tests/support/replay_rules.hpp"

namespace millwright {
namespace {

namespace fs = std::filesystem;

const std::set<std::string> kRowKeys = {
    "id",    "class", "seen",    "source",  "not_expressible", "engine",  "context", "level", "when",   "says",
    "cycle", "turns", "usually", "verdict", "observed",        "because", "probe",   "cure",  "uncured"};

std::string text(const Value& row, const char* key) { return row.value(key, ""); }

[[noreturn]] void refuse(const std::string& place, const std::string& what) {
  throw std::runtime_error(place + ": " + what);
}

void need(const ReplayCase& row, std::initializer_list<const char*> keys) {
  for (const char* key : keys) {
    if (!row.row.contains(key)) refuse(row.place, row.id + " lacks '" + key + "'");
  }
}

void check(const ReplayCase& row) {
  if (!row.not_expressible.empty()) {
    if (row.row.size() != 5)
      refuse(row.place, row.id + " is not expressible: it has id, class, seen and source beside");
    return;
  }
  need(row, {"class", "seen", "source", "engine", "level", "verdict"});
  if (row.observed.empty() != row.because.empty()) refuse(row.place, row.id + ": observed and because go together");
  if (row.observed == row.public_class) refuse(row.place, row.id + ": observed says what class says");
  if (row.cure.empty() == row.uncured.empty()) refuse(row.place, row.id + ": cure or uncured, one of them");
}

ReplayCase read_row(const YamlNode& node, const std::string& file) {
  ReplayCase out;
  out.row = node.to_value();
  out.place = file + ":" + std::to_string(node.mark.line);
  if (!out.row.is_object()) refuse(out.place, "a case is a mapping");
  const Value& row = out.row;
  for (const auto& [key, value] : row.items()) {
    if (kRowKeys.count(key) == 0) refuse(out.place, "unknown key '" + key + "' of a case");
  }
  out.id = text(row, "id");
  if (out.id.empty()) refuse(out.place, "a case without id");
  out.public_class = text(row, "class");
  out.seen = text(row, "seen");
  out.source = text(row, "source");
  out.not_expressible = text(row, "not_expressible");
  out.engine = text(row, "engine");
  out.level = text(row, "level");
  out.verdict = text(row, "verdict");
  out.observed = text(row, "observed");
  out.because = text(row, "because");
  out.probe = text(row, "probe");
  out.cure = text(row, "cure");
  out.uncured = text(row, "uncured");
  check(out);
  if (out.observed.empty()) out.observed = out.public_class;
  return out;
}

void load_file(const std::string& path, std::vector<ReplayCase>& out) {
  const auto document = load_yaml(path);
  if (!document) refuse(path, render(document.error().front()));
  const YamlNode* cases = document->find("cases");
  if (cases == nullptr || cases->kind != YamlKind::sequence) refuse(path, "a list 'cases' is wanted");
  std::map<std::string, std::string> texts;
  if (const YamlNode* named = document->find("texts"); named != nullptr) {
    for (const YamlEntry& entry : named->entries) texts[entry.first.text] = entry.second.text;
  }
  const std::string file = fs::path(path).filename().string();
  for (const YamlNode& node : cases->items) {
    out.push_back(read_row(node, file));
    out.back().texts = texts;
  }
}

// The answers of a row: what comes, one after the other.
std::vector<Value> answers_of(const ReplayCase& row, bool& again) {
  again = row.row.contains("cycle");
  for (const char* key : {"cycle", "turns"}) {
    if (!row.row.contains(key)) continue;
    const Value& list = row.row.at(key);
    return {list.begin(), list.end()};
  }
  need(row, {"says"});
  return {row.row.at("says")};
}

}  // namespace

std::vector<ReplayCase> load_replay_cases(const std::string& folder) {
  std::vector<std::string> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == ".yml") files.push_back(entry.path().string());
  }
  std::sort(files.begin(), files.end());
  std::vector<ReplayCase> out;
  for (const std::string& file : files) load_file(file, out);
  std::set<std::string> ids;
  for (const ReplayCase& row : out) {
    if (!ids.insert(row.id).second) refuse(row.place, row.id + " comes twice");
  }
  return out;
}

ReplayBehaviour replay_of(const ReplayCase& row) {
  if (!row.not_expressible.empty()) refuse(row.place, row.id + " is not expressible");
  bool again = false;
  const std::vector<Value> answers = answers_of(row, again);
  try {
    const Value when = row.row.value("when", Value::object());
    const auto rule = std::make_shared<ReplayRule>(when);
    const auto speaker = std::make_shared<ReplaySpeaker>(row.engine, row.texts);
    const Value usually = row.row.value("usually", Value::object());
    for (const Value& answer : answers) speaker->check(answer);
    speaker->check(usually);
    const auto count = std::make_shared<std::size_t>(0);
    const ReplayModel model = [=](const ReplayRequest& request) {
      if (!rule->holds(request)) return speaker->say(usually, request);
      const std::size_t at = again ? *count % answers.size() : std::min(*count, answers.size() - 1);
      ++*count;
      return speaker->say(answers[at], request);
    };
    std::optional<int> context;
    if (row.row.contains("context")) context = row.row.at("context").get<int>();
    const ReplayBehaviour surface = engine_surface(row.engine, model, context);
    if (!rule->everywhere()) return surface;
    return [=](const ReplayRequest& request) { return speaker->say(answers.front(), request).instead.value(); };
  } catch (const std::exception& problem) {
    refuse(row.place, row.id + ": " + problem.what());
  }
}

}  // namespace millwright
