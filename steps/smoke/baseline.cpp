#include "steps/smoke/baseline.hpp"

#include <fmt/format.h>

namespace millwright {
namespace {

constexpr const char* kSlower = "slower_than_baseline";
constexpr const char* kDrop = "accuracy_drop";

std::optional<double> number(const Value& document, const char* key) {
  const auto found = document.find(key);
  if (found == document.end() || !found->is_number() || found->get<double>() <= 0) return {};
  return found->get<double>();
}

std::string add(std::string text, const std::string& more) { return text.empty() ? more : text + ", " + more; }

void lower(SmokeReport& report, ProbeReport& probe, const char* symptom, const SmokeRules& rules) {
  const SymptomClass* known = rules.classes.find(symptom);
  const bool fails = known->verdict == VerdictKind::fail;
  probe.verdict = fails ? ProbeVerdict::fail : ProbeVerdict::degraded;
  probe.symptom_class = report.symptom_class = symptom;
  report.verdict = known->verdict;
  report.sentence = known->sentence;
  report.first_remedy = known->first;
}

ProbeReport compare_score(SmokeReport& report, double before, const SmokeRules& rules) {
  ProbeReport probe;
  probe.name = "score";
  probe.title = "score";
  probe.verdict = ProbeVerdict::pass;
  probe.summary = fmt::format("{:.0f} % right, was {:.0f} %", *report.accuracy * 100, before * 100);
  // As a report is written with.
  constexpr double kRounding = 1e-3;
  if (*report.accuracy < before - rules.thresholds.accuracy_drop - kRounding) lower(report, probe, kDrop, rules);
  return probe;
}

}  // namespace

Result<SmokeBaseline> read_baseline(std::string_view json) {
  const Value document = Value::parse(json, nullptr, false);
  if (!document.is_object() || !document.contains("probes"))
    return fail(make_error(ErrorKind::invalid, "this is no report of a smoke test")
                    .with_hint("a baseline is what smoke --json printed while the server was good"));
  return SmokeBaseline{number(document, "first_token_seconds"), number(document, "tokens_per_second"),
                       number(document, "accuracy")};
}

void compare_with_baseline(SmokeReport& report, const SmokeBaseline& baseline, const SmokeRules& rules) {
  if (report.verdict != VerdictKind::pass) return;
  ProbeReport probe;
  probe.name = "speed";
  probe.title = "speed";
  probe.verdict = ProbeVerdict::pass;
  bool slower = false;
  if (baseline.tokens_per_second && report.tokens_per_second) {
    slower |= *report.tokens_per_second < *baseline.tokens_per_second * rules.thresholds.baseline_speed;
    probe.summary = fmt::format("{:.1f} tokens/s, was {:.1f}", *report.tokens_per_second, *baseline.tokens_per_second);
  }
  if (baseline.first_token_seconds && report.first_token_seconds) {
    const double limit =
        *baseline.first_token_seconds * rules.thresholds.baseline_first_token + rules.thresholds.baseline_grace_seconds;
    slower |= *report.first_token_seconds > limit;
    probe.summary = add(probe.summary, fmt::format("first text after {:.2f} s, was {:.2f} s",
                                                   *report.first_token_seconds, *baseline.first_token_seconds));
  }
  if (probe.summary.empty()) {
    probe.verdict = ProbeVerdict::skipped;
    probe.summary = "nothing to compare";
  }
  if (slower) lower(report, probe, kSlower, rules);
  std::optional<ProbeReport> score;
  if (baseline.accuracy && report.accuracy) score = compare_score(report, *baseline.accuracy, rules);
  report.probes.push_back(std::move(probe));
  if (score) report.probes.push_back(std::move(*score));
}

}  // namespace millwright
