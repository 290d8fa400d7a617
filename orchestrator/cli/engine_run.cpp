#include "orchestrator/cli/engine_run.hpp"

#include "orchestrator/cli/interrupts.hpp"

namespace millwright {
namespace {

ExitCode exit_code_of(const Error& error) {
  switch (error.kind) {
    case ErrorKind::busy:
      return ExitCode::lock_held;
    case ErrorKind::stale:
      return ExitCode::stale;
    case ErrorKind::connect:
    case ErrorKind::auth:
    case ErrorKind::host_key:
      return ExitCode::unreachable;
    case ErrorKind::interrupted:
      return ExitCode::interrupted;
    default:
      return ExitCode::usage;
  }
}

}  // namespace

int run_engine(const Session& session, const StepKinds& kinds, Diffs diffs,
               const std::function<Result<RunSummary>(Engine&)>& work) {
  const auto journal = session.open_journal();
  if (!journal) return session.fail_with(journal.error());
  const auto remedies = session.wiring.make_remedies(kinds.knowledge);
  if (!remedies) return session.refuse(remedies.error());
  const std::unique_ptr<Connector> connector = session.wiring.make_connector(*session.wiring.clock);
  const std::unique_ptr<HttpClient> http = session.wiring.make_http();
  const Interrupts interrupts;
  Result<RunSummary> summary = [&] {
    RunView view(session, diffs);
    EngineServices services;
    services.connector = connector.get();
    services.journal = journal->get();
    services.sink = &view.sink();
    services.clock = session.wiring.clock;
    services.http = http.get();
    services.registry = &kinds.registry;
    services.remedies = remedies->get();
    Engine engine(services, interrupts.level());
    return work(engine);
  }();
  if (summary) return static_cast<int>(summary->exit);
  session.fail_with(summary.error());
  return static_cast<int>(exit_code_of(summary.error()));
}

}  // namespace millwright
