#include "orchestrator/engine/run_summary.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "orchestrator/base/redact.hpp"
#include "orchestrator/base/text.hpp"

namespace millwright {

namespace {

int count(const std::vector<HostEnd>& ends, const std::string& state) {
  return static_cast<int>(
      std::count_if(ends.begin(), ends.end(), [&](const HostEnd& end) { return end.summary.state == state; }));
}

ExitCode code_of(const RunContext& run, const std::vector<HostEnd>& ends) {
  const auto any = [&](auto predicate) { return std::any_of(ends.begin(), ends.end(), predicate); };
  if (count(ends, "rollback_incomplete") > 0) return ExitCode::rollback_incomplete;
  if (run.interrupt.load() >= 1 && count(ends, "cancelled") > 0) return ExitCode::interrupted;
  const auto failed_by = [](bool HostEnd::*reason) {
    return [reason](const HostEnd& end) { return end.summary.state != "failed" || end.*reason; };
  };
  const bool looking = run.changes_nothing() && run.options.asking != Asking::plan;
  if (looking && any([](const HostEnd& end) { return end.summary.changed > 0; })) return ExitCode::failed;
  if (count(ends, "failed") > 0) {
    if (std::all_of(ends.begin(), ends.end(), failed_by(&HostEnd::locked))) return ExitCode::lock_held;
    if (std::all_of(ends.begin(), ends.end(), failed_by(&HostEnd::stale))) return ExitCode::stale;
    return ExitCode::failed;
  }
  if (count(ends, "rolled_back") > 0) return ExitCode::rolled_back;
  if (count(ends, "unreachable") > 0) return ExitCode::unreachable;
  if (run.recorder.broken()) return ExitCode::usage;
  if (any([](const HostEnd& end) { return end.inconclusive; })) return ExitCode::inconclusive;
  return ExitCode::done;
}

// Of drift and verify.
std::string how_it_looks(const std::vector<HostEnd>& ends, const std::string& why) {
  int steps = 0;
  int hosts = 0;
  for (const HostEnd& end : ends) {
    steps += end.summary.changed;
    hosts += end.summary.changed > 0 ? 1 : 0;
  }
  if (steps == 0) return "looked at; something failed" + why;
  return fmt::format("{} step{} on {} host{} {} not as the playbook says{}", steps, steps == 1 ? "" : "s", hosts,
                     hosts == 1 ? "" : "s", steps == 1 ? "is" : "are", why);
}

std::string how_it_ended(const RunContext& run, const std::vector<HostEnd>& ends, ExitCode code) {
  const auto first =
      std::find_if(ends.begin(), ends.end(), [](const HostEnd& end) { return end.first_error.has_value(); });
  const std::string why =
      first == ends.end() ? std::string() : ": " + first->summary.host + ": " + first->first_error->message;
  switch (code) {
    case ExitCode::done:
      if (!run.changes_nothing()) return "done";
      return run.options.asking == Asking::plan ? "planned; nothing was changed" : "everything is as the playbook says";
    case ExitCode::failed:
      if (run.changes_nothing() && run.options.asking != Asking::plan) return how_it_looks(ends, why);
      return "failed, left as it is" + why;
    case ExitCode::rolled_back:
      return "failed and rolled back" + why;
    case ExitCode::rollback_incomplete:
      return "rolled back, but not everything is as before" + why;
    case ExitCode::unreachable:
      return "not every host could be reached" + why;
    case ExitCode::inconclusive:
      return "inconclusive";
    case ExitCode::lock_held:
      return "somebody else holds the lock" + why;
    case ExitCode::stale:
      return "the plan is stale" + why;
    case ExitCode::interrupted:
      return fmt::format("interrupted; go on with: millwright resume {}", run.run());
    case ExitCode::usage:
      break;
  }
  const auto broken = run.recorder.broken();
  return "stopped: the journal cannot be written" + (broken ? ": " + broken->message : std::string());
}

}  // namespace

RunSummary summarize_run(const RunContext& run, const std::vector<HostEnd>& ends) {
  RunSummary summary;
  summary.run = run.run();
  summary.exit = code_of(run, ends);
  summary.sentence = redactor().redact(how_it_ended(run, ends, summary.exit));
  for (const HostEnd& end : ends) {
    summary.hosts.push_back(end.summary);
    summary.remaining.insert(summary.remaining.end(), end.remaining.begin(), end.remaining.end());
    if (summary.cured_by.empty()) summary.cured_by = end.cured_by;
  }
  return summary;
}

void finish(RunContext& run, RunSummary& summary, SteadyPoint begin, RolledBack why) {
  const bool wanted = why == RolledBack::as_asked && summary.exit == ExitCode::rolled_back;
  if (wanted) summary.sentence = "rolled back";
  HostSummary total;
  int unreachable = 0;
  std::string endpoint;
  for (const HostSummary& host : summary.hosts) {
    total.ok += host.ok;
    total.changed += host.changed;
    total.failed += host.failed;
    total.skipped += host.skipped;
    total.unknown += host.unknown;
    unreachable += host.state == "unreachable" ? 1 : 0;
    // Of what was taken back or left broken nothing is announced.
    if (host.state != "ok" && host.state != "changed") continue;
    for (std::size_t step = 0; step < run.playbook.steps.size(); ++step) {
      const Value outputs = run.board.get(host.host, step).outputs;
      if (outputs.is_object() && outputs.contains("endpoint") && outputs["endpoint"].is_string()) {
        endpoint = outputs["endpoint"].get<std::string>();
      }
    }
  }
  const Clock& clock = *run.services.clock;
  const auto took = std::chrono::duration_cast<Milliseconds>(clock.steady() - begin);
  run.recorder.emit(EventType::run_finished, "", "",
                    {{"exit_code", static_cast<int>(wanted ? ExitCode::done : summary.exit)},
                     {"sentence", summary.sentence},
                     {"counts",
                      {{"ok", total.ok},
                       {"changed", total.changed},
                       {"failed", total.failed},
                       {"skipped", total.skipped},
                       {"unknown", total.unknown},
                       {"unreachable", unreachable}}},
                     {"milliseconds", took.count()},
                     {"remaining", summary.remaining},
                     {"cured_by", summary.cured_by},
                     {"endpoint", endpoint}});
  const Result<void> kept =
      run.services.journal->finish_run(run.run(), static_cast<int>(summary.exit), summary.sentence, clock.now());
  if (!kept && summary.exit == ExitCode::done) {
    summary.exit = ExitCode::usage;
    summary.sentence = "done, but the journal cannot be written: " + kept.error().message;
  }
}

}  // namespace millwright
