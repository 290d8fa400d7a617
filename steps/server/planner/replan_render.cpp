#include <fmt/format.h>

#include <cmath>

#include "orchestrator/base/text.hpp"
#include "steps/server/planner/render.hpp"
#include "steps/server/planner/replan.hpp"

namespace millwright::planner {
namespace {

double rounded(double value) { return std::round(value * 1e4) / 1e4; }

Value json_of(const LogFailure& failure) {
  Value numbers = Value::object();
  for (const auto& [name, value] : failure.numbers) numbers[name] = rounded(value);
  return {{"where", failure.where}, {"class", failure.symptom_class},     {"sentence", failure.sentence},
          {"line", failure.line},   {"line_number", failure.line_number}, {"numbers", numbers}};
}

}  // namespace

Value to_json(const LogReading& reading, const std::string& file) {
  Value measured = Value::object();
  for (const auto& [name, value] : reading.terms) measured[name] = rounded(value);
  Value out = {{"file", file},
               {"engine", reading.engine},
               {"ready", reading.ready},
               {"reached", reading.reached},
               {"measured", measured}};
  if (!reading.version.empty()) out["engine_version"] = reading.version;
  if (!reading.model.empty()) out["model"] = reading.model;
  out["failure"] = reading.failure ? json_of(*reading.failure) : Value();
  return out;
}

Value to_json(const Replan& replan) {
  Value compared = Value::array(), next = Value::array();
  for (const Compared& one : replan.compared) {
    Value row = {{"term", one.term}, {"measured", rounded(one.measured)}, {"predicted", rounded(one.predicted)}};
    if (!one.remark.empty()) row["remark"] = one.remark;
    compared.push_back(std::move(row));
  }
  for (const LadderStep& step : replan.next) {
    Value changes = Value::array();
    for (const FlagChoice& change : step.changes)
      changes.push_back({{"name", change.name}, {"value", change.value}, {"reason", change.reason}});
    next.push_back({{"flags", changes},
                    {"decision", to_string(step.decision)},
                    {"kv_tokens", static_cast<std::int64_t>(step.kv_tokens)},
                    {"headroom_gib", rounded(step.headroom_gib)}});
  }
  return {{"compared", compared},
          {"arithmetic", replan.arithmetic},
          {"next", next},
          {"opposite", replan.opposite},
          {"verdict", replan.verdict}};
}

std::string as_text(const LogReading& reading, const std::string& file) {
  std::string out =
      fmt::format("log      {}: {}{}\n", file, reading.engine, reading.version.empty() ? "" : " " + reading.version);
  if (reading.failure) {
    out += fmt::format("failed   {} ({}), line {}: {}\n", reading.failure->where, reading.failure->symptom_class,
                       reading.failure->line_number, reading.failure->sentence);
    out += fmt::format("         {}\n", reading.failure->line);
  } else {
    out += reading.ready
               ? "ready    it came up\n"
               : "reached  " +
                     (reading.reached.empty() ? std::string("nothing that says where it is") : reading.reached) + "\n";
  }
  if (reading.terms.empty()) return out;
  std::vector<std::string> words;
  for (const auto& [name, value] : reading.terms) words.push_back(fmt::format("{} {:g}", name, value));
  return out + "measured " + join(words, ", ") + "\n";
}

std::string as_text(const Replan& replan, const Query& query, const std::string& model) {
  std::string out;
  if (!replan.compared.empty()) out += fmt::format("{:<22} {:>12} {:>12}\n", "", "measured", "predicted");
  for (const Compared& one : replan.compared) {
    out += fmt::format("{:<22} {:>12.2f} {:>12.2f}\n", one.term, one.measured, one.predicted);
    if (!one.remark.empty()) out += "warning  " + one.remark + "\n";
  }
  for (const std::string& line : replan.arithmetic) out += "         " + line + "\n";
  if (!replan.next.empty()) out += "Next, one of:\n";
  for (const LadderStep& step : replan.next) {
    out += fmt::format("  {:<44} {}: {:.0f} tokens, {:.1f} GiB to spare\n", words_of(step.changes, " "),
                       step.decision == Decision::fits ? "fits" : "try", step.kv_tokens, step.headroom_gib);
    for (const FlagChoice& change : step.changes) out += "      " + change.reason + "\n";
  }
  out += replan.verdict + "\n";
  if (!replan.next.empty() && replan.plan.invalid.empty())
    out += "Launch:\n  " + launch_line(query, replan.plan, model) + "\n";
  return out;
}

}  // namespace millwright::planner
