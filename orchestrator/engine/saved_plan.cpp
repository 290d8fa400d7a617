#include "orchestrator/engine/saved_plan.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "orchestrator/base/text.hpp"

namespace millwright {
namespace {

constexpr const char* kKind = "millwright plan";

std::string playbook_digest(const SavedPlan& plan) {
  std::string all = sha256_hex(plan.playbook_text) + "\n";
  for (const auto& [path, text] : plan.files) all += path + "\n" + sha256_hex(text) + "\n";
  return sha256_hex(all);
}

Value unit_json(const PlannedUnit& unit) {
  Value out = {{"host", unit.host}, {"step", unit.step},       {"state", unit.state},    {"summary", unit.summary},
               {"diff", unit.diff}, {"actions", unit.actions}, {"answers", unit.answers}};
  if (unit.item) out["item"] = *unit.item;
  return out;
}

PlannedUnit unit_of(const Value& value) {
  PlannedUnit unit;
  unit.host = value.at("host").get<std::string>();
  unit.step = value.at("step").get<std::string>();
  unit.state = value.at("state").get<std::string>();
  unit.summary = value.at("summary").get<std::string>();
  unit.diff = value.at("diff").get<std::string>();
  unit.actions = value.at("actions");
  unit.answers = value.at("answers").get<std::map<std::string, std::string>>();
  if (value.contains("item")) unit.item = value.at("item").get<std::size_t>();
  return unit;
}

bool same_unit(const PlannedUnit& a, const PlannedUnit& b) {
  return a.host == b.host && a.step == b.step && a.item == b.item;
}

const PlannedUnit* find(const std::vector<PlannedUnit>& units, const PlannedUnit& wanted) {
  const auto found =
      std::find_if(units.begin(), units.end(), [&](const PlannedUnit& unit) { return same_unit(unit, wanted); });
  return found == units.end() ? nullptr : &*found;
}

std::string state_words(const std::string& state) {
  return state == "ok"        ? "was as wanted"
         : state == "change"  ? "was to change"
         : state == "skipped" ? "was to be skipped"
                              : "was known only when it runs";
}

// What makes two actions the same, to who reads a plan: not the bytes of a secret, which may be renewed, and neither
// what is made of them (their number, the hash by which an undo knows them again).
Value essence(Value action) {
  action.erase("undo");
  if (!action.contains("files")) return action;
  for (Value& file : action["files"]) {
    if (file.contains("sha256")) file.erase("bytes");
  }
  return action;
}

Value essences(const Value& actions) {
  Value out = Value::array();
  for (const Value& action : actions) out.push_back(essence(action));
  return out;
}

std::string titles(const Value& actions) {
  std::vector<std::string> all;
  for (const Value& action : actions) all.push_back(action.value("title", std::string()));
  return join(all, ", ");
}

}  // namespace

std::string PlannedUnit::shown() const {
  return host + ", step " + step + (item ? fmt::format("[{}]", *item) : std::string());
}

std::vector<PlannedUnit> planned_units(const std::vector<Event>& events) {
  std::vector<PlannedUnit> units;
  const auto told = [&](const Event& event) {
    return std::any_of(units.begin(), units.end(),
                       [&](const PlannedUnit& unit) { return unit.host == event.host && unit.step == event.step; });
  };
  for (const Event& event : events) {
    PlannedUnit unit;
    unit.host = event.host;
    unit.step = event.step;
    unit.state = event.data.value("state", std::string());
    unit.summary = event.data.value("summary", std::string());
    if (event.type == EventType::step_planned) {
      unit.diff = event.data.value("diff", std::string());
      unit.actions = event.data.value("actions", Value::array());
      unit.answers = event.data.value("answers", std::map<std::string, std::string>());
      if (event.data.contains("item")) unit.item = event.data["item"].get<std::size_t>();
      units.push_back(std::move(unit));
    } else if (event.type == EventType::step_finished && unit.state == "skipped" && !told(event)) {
      units.push_back(std::move(unit));
    }
  }
  return units;
}

Value saved_plan_json(const SavedPlan& plan) {
  Value units = Value::array();
  for (const PlannedUnit& unit : plan.units) units.push_back(unit_json(unit));
  return {{"schema_version", kPlanSchemaVersion},
          {"kind", kKind},
          {"made", iso_utc(plan.made)},
          {"by", plan.by},
          {"playbook",
           {{"path", plan.playbook_path},
            {"digest", playbook_digest(plan)},
            {"text", plan.playbook_text},
            {"files", plan.files}}},
          {"inventory", plan.inventory},
          {"parameters", plan.parameters},
          {"steps", std::move(units)}};
}

bool is_saved_plan(std::string_view text) {
  if (!starts_with(trim(text.substr(0, 64)), "{")) return false;
  const Value value = Value::parse(text, nullptr, false);
  return value.is_object() && value.value("kind", Value()) == kKind;
}

Result<SavedPlan> read_saved_plan(std::string_view text, const std::string& path) {
  const Value value = Value::parse(text, nullptr, false);
  if (!value.is_object()) return fail(ErrorKind::invalid, path + " is no saved plan");
  if (value.value("schema_version", Value()) != kPlanSchemaVersion) {
    return fail(make_error(ErrorKind::stale, fmt::format("{} was written by another version of millwright", path))
                    .with_hint("plan again with this one"));
  }
  SavedPlan plan;
  std::string digest;
  try {
    plan.by = value.at("by").get<std::string>();
    const Value& playbook = value.at("playbook");
    plan.playbook_path = playbook.at("path").get<std::string>();
    plan.playbook_text = playbook.at("text").get<std::string>();
    plan.files = playbook.at("files").get<std::map<std::string, std::string>>();
    digest = playbook.at("digest").get<std::string>();
    plan.inventory = value.at("inventory").get<std::vector<std::string>>();
    plan.parameters = value.at("parameters");
    for (const Value& unit : value.at("steps")) plan.units.push_back(unit_of(unit));
  } catch (const Value::exception& problem) {
    return fail(make_error(ErrorKind::invalid, fmt::format("{} is not understood: {}", path, problem.what()))
                    .with_hint("a plan is done as it was written, or not at all: plan again"));
  }
  if (digest != playbook_digest(plan)) {
    return fail(make_error(ErrorKind::invalid, path + ": the playbook in it is not the one that was planned")
                    .with_hint("a plan is done as it was written, or not at all: plan again"));
  }
  return plan;
}

std::vector<PlanDifference> plan_differences(const std::vector<PlannedUnit>& planned,
                                             const std::vector<PlannedUnit>& now) {
  std::vector<PlanDifference> out;
  const auto differs = [&](const PlannedUnit& unit, const std::string& question, const std::string& text) {
    out.push_back({unit.host, unit.step, unit.item, question, unit.shown() + ": " + text});
  };
  for (const PlannedUnit& was : planned) {
    const PlannedUnit* is = find(now, was);
    if (is == nullptr) {
      differs(was, "", state_words(was.state) + ", and is not there any more");
      continue;
    }
    const std::size_t before = out.size();
    for (const auto& [question, digest] : was.answers) {
      const auto answer = is->answers.find(question);
      if (answer == is->answers.end()) {
        differs(was, question, fmt::format("'{}' is not asked any more", question));
      } else if (answer->second != digest) {
        differs(was, question, fmt::format("the answer to '{}' is another one now", question));
      }
    }
    if (out.size() != before) continue;
    if (is->state != was.state) {
      differs(was, "", fmt::format("{}; now: {}", state_words(was.state), is->summary));
    } else if (essences(is->actions) != essences(was.actions) || is->diff != was.diff) {
      differs(was, "", "the node is as it was, but something else would be done: has a file here changed?");
    }
  }
  for (const PlannedUnit& is : now) {
    if (find(planned, is) == nullptr) differs(is, "", "was not there when it was planned");
  }
  return out;
}

Result<void> approve_actions(const std::vector<PlannedUnit>& planned, const std::string& host, const std::string& node,
                             const std::string& step, std::optional<std::size_t> item, const Value& actions) {
  const auto of_host = [&](const PlannedUnit& unit) { return unit.host == host || starts_with(unit.host, host + "/"); };
  // A container that was not there yet, and items that were not known, were unknown as one.
  const bool unknown = std::any_of(planned.begin(), planned.end(), [&](const PlannedUnit& unit) {
    return of_host(unit) && unit.step == step && unit.state == "unknown" && (!unit.item || unit.item == item);
  });
  if (unknown) return {};
  PlannedUnit wanted;
  wanted.host = node;
  wanted.step = step;
  wanted.item = item;
  const PlannedUnit* unit = find(planned, wanted);
  const auto stale = [&](const std::string& why) {
    return fail(make_error(ErrorKind::stale, fmt::format("{}: {}", wanted.shown(), why))
                    .with_hint("nothing was done by this step; plan again"));
  };
  if (unit == nullptr) return stale("is not in the plan, and would do: " + titles(actions));
  if (unit->state != "change") return stale(state_words(unit->state) + ", and would do now: " + titles(actions));
  const Value were = essences(unit->actions);
  auto at = were.begin();
  for (const Value& action : actions) {
    at = std::find(at, were.end(), essence(action));
    if (at == were.end()) {
      return stale(fmt::format("'{}' is not what was planned ({})", action.value("title", std::string()),
                               titles(unit->actions)));
    }
    ++at;
  }
  return {};
}

}  // namespace millwright
