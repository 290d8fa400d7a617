#include "orchestrator/cli/run_record.hpp"

#include <fmt/format.h>

#include "orchestrator/engine/engine.hpp"

namespace millwright {

Result<RunRecord> find_run(Journal& journal, const std::string& name) {
  auto found = journal.find_run(name);
  if (!found) return fail(found.error());
  if (!*found)
    return fail(
        make_error(ErrorKind::usage, name == "last" ? "there is no run yet" : fmt::format("there is no run '{}'", name))
            .with_hint("millwright runs lists them; --state names another journal"));
  return std::move(**found);
}

Result<RunRecord> find_applied_run(Journal& journal, const std::string& name) {
  if (name != "last") return find_run(journal, name);
  constexpr std::size_t most = 1000;
  auto runs = journal.runs(most);
  if (!runs) return fail(runs.error());
  for (RunRecord& run : *runs) {
    if (run.verb == "apply" || run.verb == "rollback") return std::move(run);
  }
  return find_run(journal, name);
}

std::string run_outcome(const RunRecord& run) {
  if (!run.exit_code) return "not finished";
  switch (static_cast<ExitCode>(*run.exit_code)) {
    case ExitCode::done:
      return "done";
    case ExitCode::usage:
      return "error";
    case ExitCode::failed:
      return "failed";
    case ExitCode::rolled_back:
      return "rolled back";
    case ExitCode::unreachable:
      return "unreachable";
    case ExitCode::rollback_incomplete:
      return "incomplete";
    case ExitCode::inconclusive:
      return "inconclusive";
    case ExitCode::lock_held:
      return "lock held";
    case ExitCode::stale:
      return "stale";
    case ExitCode::interrupted:
      return "interrupted";
  }
  return fmt::format("exit {}", *run.exit_code);
}

Value run_json(const RunRecord& run) {
  return {{"id", run.id},
          {"verb", run.verb},
          {"playbook", run.playbook_path},
          {"started", iso_utc(run.started)},
          {"finished", run.finished ? Value(iso_utc(*run.finished)) : Value()},
          {"exit_code", run.exit_code ? Value(*run.exit_code) : Value()},
          {"outcome", run_outcome(run)},
          {"sentence", run.sentence}};
}

}  // namespace millwright
