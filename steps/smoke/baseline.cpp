#include "steps/smoke/baseline.hpp"

#include <fmt/format.h>

namespace millwright {
namespace {

constexpr const char* kClass = "slower_than_baseline";

std::optional<double> number(const Value& document, const char* key) {
  const auto found = document.find(key);
  if (found == document.end() || !found->is_number() || found->get<double>() <= 0) return {};
  return found->get<double>();
}

std::string add(std::string text, const std::string& more) { return text.empty() ? more : text + ", " + more; }

}  // namespace

Result<SmokeBaseline> read_baseline(std::string_view json) {
  const Value document = Value::parse(json, nullptr, false);
  if (!document.is_object() || !document.contains("probes"))
    return fail(make_error(ErrorKind::invalid, "this is no report of a smoke test")
                    .with_hint("a baseline is what smoke --json printed while the server was good"));
  return SmokeBaseline{number(document, "first_token_seconds"), number(document, "tokens_per_second")};
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
  if (slower) {
    const SymptomClass* known = rules.classes.find(kClass);
    probe.verdict = ProbeVerdict::degraded;
    probe.symptom_class = report.symptom_class = kClass;
    report.verdict = VerdictKind::degraded;
    report.sentence = known->sentence;
    report.first_remedy = known->first;
  }
  report.probes.push_back(std::move(probe));
}

}  // namespace millwright
