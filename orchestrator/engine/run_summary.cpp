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

// "h1, h2 and 3 more": so many names that a line still holds them.
std::string few(const std::vector<std::string>& names) {
  constexpr std::size_t shown = 5;
  if (names.size() <= shown) return join(names, ", ");
  return fmt::format("{} and {} more", join({names.begin(), names.begin() + shown}, ", "), names.size() - shown);
}

std::vector<std::string> unreachable_hosts(const std::vector<HostEnd>& ends) {
  std::vector<std::string> names;
  for (const HostEnd& end : ends) {
    if (end.summary.state == "unreachable") names.push_back(end.summary.host);
  }
  return names;
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

std::string done_with(const std::vector<HostEnd>& ends) {
  int ignored = 0;
  for (const HostEnd& end : ends) ignored += end.summary.ignored;
  if (ignored == 0) return "done";
  return fmt::format("done; {} failure{} ignored", ignored, ignored == 1 ? " was" : "s were");
}

std::string how_it_ended(const RunContext& run, const std::vector<HostEnd>& ends, ExitCode code) {
  const auto first =
      std::find_if(ends.begin(), ends.end(), [](const HostEnd& end) { return end.first_error.has_value(); });
  const std::vector<std::string> lost = unreachable_hosts(ends);
  std::string why =
      first == ends.end() ? std::string() : ": " + first->summary.host + ": " + first->first_error->message;
  const bool told =
      code == ExitCode::unreachable || (lost.size() == 1 && first != ends.end() && first->summary.host == lost.front());
  if (!lost.empty() && !told) why += fmt::format("; not reached: {}", few(lost));
  switch (code) {
    case ExitCode::done:
      if (!run.changes_nothing()) return done_with(ends);
      return run.options.asking == Asking::plan ? "planned; nothing was changed" : "everything is as the playbook says";
    case ExitCode::failed:
      if (run.changes_nothing()) {
        return run.options.asking == Asking::plan ? "not everything could be planned" + why : how_it_looks(ends, why);
      }
      return "failed, left as it is" + why;
    case ExitCode::rolled_back:
      return "failed and rolled back" + why;
    case ExitCode::rollback_incomplete:
      return "rolled back, but not everything is as before" + why;
    case ExitCode::unreachable:
      // Of one host alone its name is not said twice.
      return fmt::format("{} could not be reached{}", few(lost),
                         lost.size() == 1 && first != ends.end() ? ": " + first->first_error->message : why);
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
  if (wanted && !run.ended_before.empty()) summary.sentence += "; before that: " + run.ended_before;
  HostSummary total;
  int unreachable = 0;
  std::string endpoint;
  for (const HostSummary& host : summary.hosts) {
    total.ok += host.ok;
    total.changed += host.changed;
    total.failed += host.failed;
    total.ignored += host.ignored;
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
                       {"ignored", total.ignored},
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
