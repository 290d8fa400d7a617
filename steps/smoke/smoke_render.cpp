// The report as JSON and as lines of a terminal.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "orchestrator/base/units.hpp"
#include "steps/smoke/smoke.hpp"
#include "steps/smoke/utf8.hpp"

namespace millwright {
namespace {

double rounded(double seconds) { return std::round(seconds * 1000) / 1000; }

Value text(const std::string& bytes) { return clean_utf8(bytes).text; }

Value text_or_null(const std::string& bytes) { return bytes.empty() ? Value() : text(bytes); }

Value probe_json(const ProbeReport& probe) {
  Value out = {{"name", probe.name},
               {"title", probe.title},
               {"verdict", to_string(probe.verdict)},
               {"class", text_or_null(probe.symptom_class)},
               {"summary", text(probe.summary)},
               {"seconds", rounded(probe.seconds)},
               {"tokens", probe.tokens ? Value(*probe.tokens) : Value()},
               {"notes", Value::array()},
               {"exchanges", Value::array()}};
  // The exchange that decided: the first that shows the finding, else the first.
  auto deciding = std::find_if(probe.exchanges.begin(), probe.exchanges.end(), [&](const Exchange& exchange) {
    return !probe.symptom_class.empty() && exchange.symptom_class == probe.symptom_class;
  });
  if (deciding == probe.exchanges.end()) deciding = probe.exchanges.begin();
  const bool asked = deciding != probe.exchanges.end();
  out["expected"] = asked ? text_or_null(deciding->expected) : Value();
  out["got"] = asked ? text(deciding->got) : Value();
  out["evidence"] = asked ? text_or_null(deciding->evidence) : Value();
  for (const std::string& note : probe.notes) out["notes"].push_back(text(note));
  for (const Exchange& exchange : probe.exchanges) {
    out["exchanges"].push_back({{"asked", text(exchange.asked)},
                                {"expected", text_or_null(exchange.expected)},
                                {"got", text(exchange.got)},
                                {"right", exchange.right},
                                {"class", text_or_null(exchange.symptom_class)},
                                {"seconds", rounded(exchange.seconds)},
                                {"evidence", text_or_null(exchange.evidence)}});
  }
  return out;
}

std::string verdict_word(ProbeVerdict verdict) {
  return verdict == ProbeVerdict::fail ? "FAIL" : std::string(to_string(verdict));
}

}  // namespace

Value to_json(const SmokeReport& report) {
  Value out = {
      {"schema_version", kSmokeSchemaVersion},
      {"verdict", to_string(report.verdict)},
      {"class", text_or_null(report.symptom_class)},
      {"sentence", text(report.sentence)},
      {"first_remedy", text_or_null(report.first_remedy)},
      {"seconds", rounded(report.seconds)},
      {"first_token_seconds", report.first_token_seconds ? Value(rounded(*report.first_token_seconds)) : Value()},
      {"tokens_per_second", report.tokens_per_second ? Value(rounded(*report.tokens_per_second)) : Value()},
      {"accuracy", report.accuracy ? Value(rounded(*report.accuracy)) : Value()},
      {"server",
       {{"engine", text_or_null(report.server.engine)},
        {"version", text_or_null(report.server.version)},
        {"model", text_or_null(report.server.model)},
        {"max_length", report.server.max_length ? Value(*report.server.max_length) : Value()}}},
      {"probes", Value::array()}};
  for (const ProbeReport& probe : report.probes) out["probes"].push_back(probe_json(probe));
  return out;
}

std::string probe_line(const ProbeReport& probe) {
  std::string line =
      fmt::format("{:<17}  {:<12}  {}", probe.title, verdict_word(probe.verdict), printable(probe.summary, 300));
  if (probe.verdict != ProbeVerdict::skipped && probe.name != "first_token") {
    const auto elapsed = Milliseconds(static_cast<Milliseconds::rep>(probe.seconds * 1000));
    line += fmt::format("  ({})", format_duration(elapsed));
  }
  return line;
}

std::string closing_lines(const SmokeReport& report, const SmokeRules& rules) {
  std::string out;
  if (report.symptom_class.empty()) return fmt::format("{}: {}\n", to_string(report.verdict), report.sentence);
  out = fmt::format("{}: {}. {}\n", to_string(report.verdict), report.symptom_class, report.sentence);
  if (const SymptomClass* known = rules.classes.find(report.symptom_class)) {
    out += fmt::format("Usual cause: {}\nTry: {}\n", known->why, known->cure);
  }
  return out;
}

}  // namespace millwright
