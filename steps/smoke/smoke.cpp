#include "steps/smoke/smoke.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "steps/smoke/later.hpp"
#include "steps/smoke/probe.hpp"
#include "steps/smoke/server_log.hpp"
#include "steps/smoke/went_bad.hpp"

namespace millwright {
namespace {

double seconds_between(SteadyPoint from, SteadyPoint to) { return std::chrono::duration<double>(to - from).count(); }

ProbeReport run_probe(const Probe& probe, SmokeSession& session) {
  const SteadyPoint start = session.clock().steady();
  ProbeReport report = probe.run(session);
  report.name = probe.name();
  report.title = probe.title();
  check_whether_all_went_bad(session, report);
  report.seconds = seconds_between(start, session.clock().steady());
  return report;
}

ProbeReport skipped(const Probe& probe, std::string why) {
  ProbeReport report;
  report.name = probe.name();
  report.title = probe.title();
  report.summary = std::move(why);
  return report;
}

// The worst probe decides: fail, then inconclusive, then degraded.
const ProbeReport* deciding(const std::vector<ProbeReport>& probes) {
  for (const ProbeVerdict wanted : {ProbeVerdict::fail, ProbeVerdict::inconclusive, ProbeVerdict::degraded}) {
    const auto found =
        std::find_if(probes.begin(), probes.end(), [&](const ProbeReport& p) { return p.verdict == wanted; });
    if (found != probes.end()) return &*found;
  }
  return nullptr;
}

std::string passed_sentence(const SmokeReport& report) {
  const auto count = [&](ProbeVerdict verdict) {
    return std::count_if(report.probes.begin(), report.probes.end(),
                         [&](const ProbeReport& p) { return p.verdict == verdict; });
  };
  const auto ran = static_cast<std::ptrdiff_t>(report.probes.size()) - count(ProbeVerdict::skipped);
  std::string sentence = fmt::format("{} of {} probes", count(ProbeVerdict::pass), ran);
  if (report.tokens_per_second) sentence += fmt::format(", {:.1f} tokens/s", *report.tokens_per_second);
  return sentence;
}

void decide(SmokeReport& report, const SmokeRules& rules) {
  const ProbeReport* worst = deciding(report.probes);
  if (report.cancelled && (worst == nullptr || worst->verdict != ProbeVerdict::fail)) {
    report.verdict = VerdictKind::inconclusive;
    report.sentence = "The test was ended before it was finished.";
    return;
  }
  if (worst == nullptr) {
    report.verdict = VerdictKind::pass;
    report.sentence = passed_sentence(report);
    return;
  }
  report.verdict = worst->verdict == ProbeVerdict::fail       ? VerdictKind::fail
                   : worst->verdict == ProbeVerdict::degraded ? VerdictKind::degraded
                                                              : VerdictKind::inconclusive;
  report.symptom_class = worst->symptom_class;
  if (const SymptomClass* known = rules.classes.find(worst->symptom_class)) {
    report.sentence = known->sentence;
    report.first_remedy = known->first;
  } else {
    report.sentence = worst->summary;
  }
}

std::vector<std::string> probes_of(std::vector<std::string> level, const SmokeOptions& options) {
  const bool there = std::find(level.begin(), level.end(), "accuracy") != level.end();
  if (options.accuracy && !there) level.emplace_back("accuracy");
  return level;
}

// The bytes are kept whenever something is wrong, as a remedy or a rollback starts the log anew.
std::optional<LogLook> look_at_log(SmokeReport& report, const SmokeOptions& options) {
  if (!options.look_at_log || report.cancelled) return std::nullopt;
  auto look = options.look_at_log();
  if (!look) return std::nullopt;
  const ProbeReport* worst = deciding(report.probes);
  const bool grave = !look->findings.empty() && look->findings.front().severity != SignSeverity::note;
  std::string evidence;
  if (options.keep && (worst != nullptr || grave)) evidence = options.keep("server.log", look->text);
  report.probes.push_back(log_probe(*look, evidence));
  if (options.on_probe) options.on_probe(report.probes.back());
  return look;
}

}  // namespace

std::string_view to_string(ProbeVerdict verdict) {
  switch (verdict) {
    case ProbeVerdict::pass:
      return "pass";
    case ProbeVerdict::degraded:
      return "degraded";
    case ProbeVerdict::fail:
      return "fail";
    case ProbeVerdict::inconclusive:
      return "inconclusive";
    case ProbeVerdict::skipped:
      return "skipped";
  }
  return "skipped";
}

SmokeReport run_smoke(HttpClient& http, Clock& clock, const SmokeRules& rules, const SmokeOptions& options) {
  const auto level = rules.levels.find(options.level);
  if (level == rules.levels.end()) throw std::logic_error("unknown level " + options.level);
  const SteadyPoint start = clock.steady();
  SmokeSession session(http, clock, rules, options);
  SmokeReport report;
  std::string failed;
  for (const std::string& name : probes_of(level->second, options)) {
    const Probe* probe = find_probe(name);
    if (probe == nullptr) throw std::logic_error("unknown probe " + name);
    if (probe->explains() && failed.empty()) continue;
    if (session.stopped()) report.cancelled = true;
    ProbeReport result;
    if (report.cancelled || (!failed.empty() && !probe->explains())) {
      result = skipped(*probe, report.cancelled ? "no time left" : "after " + failed);
    } else {
      if (options.on_start) options.on_start(probe->title());
      result = run_probe(*probe, session);
      // What an interrupted request looks like says nothing about the server.
      if (options.cancelled && options.cancelled()) {
        report.cancelled = true;
        result = skipped(*probe, "interrupted");
      }
      // Without an answer to judge, what follows can only repeat the finding.
      if (result.verdict == ProbeVerdict::fail || result.verdict == ProbeVerdict::inconclusive) failed = probe->title();
    }
    if (result.score) report.accuracy = result.score;
    if (options.on_probe) options.on_probe(result);
    report.probes.push_back(std::move(result));
  }
  if (failed.empty() && !report.cancelled) ask_again_later(http, session, report);
  report.server = session.server;
  report.first_token_seconds = session.first_token_seconds;
  report.tokens_per_second = session.tokens_per_second;
  const auto look = look_at_log(report, options);
  report.seconds = seconds_between(start, clock.steady());
  decide(report, rules);
  if (look) apply_log(report, *look, rules);
  return report;
}

}  // namespace millwright
