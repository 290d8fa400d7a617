#include "orchestrator/cli/engine_run.hpp"

#include <fmt/format.h>

#include <optional>

#include "orchestrator/cli/interrupts.hpp"
#include "orchestrator/journal/remedy_memory.hpp"
#include "orchestrator/report/html.hpp"

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

// A page that cannot be written is no reason to call the run a failure: its journal tells the same.
void write_page(const Session& session, Journal& journal, const std::string& run) {
  const auto page = write_html_report(journal, run, run_folder(session, run));
  if (!page) {
    session.console.err("warning: no page of this run: " + page.error().message + "\n");
  } else if (!session.common.json) {
    session.console.out("page    " + *page + "\n");
  }
}

}  // namespace

std::string run_folder(const Session& session, const std::string& run) {
  return session.state_directory() + "/runs/" + run;
}

namespace {

class NoSink final : public EventSink {
 public:
  void on_event(const Event&) override {}
};

// To both; the first may be absent.
class TwoSinks final : public EventSink {
 public:
  TwoSinks(EventSink* first, EventSink& second) : first_(first), second_(second) {}
  void on_event(const Event& event) override {
    if (first_ != nullptr) first_->on_event(event);
    second_.on_event(event);
  }

 private:
  EventSink* first_;
  EventSink& second_;
};

}  // namespace

int run_engine(const Session& session, const StepKinds& kinds, Diffs diffs,
               const std::function<Result<RunSummary>(Engine&)>& work) {
  NoSink nowhere;
  return run_engine(session, kinds, diffs, Shown::yes, nowhere, work);
}

int run_engine(const Session& session, const StepKinds& kinds, Diffs diffs, Shown shown, EventSink& also,
               const std::function<Result<RunSummary>(Engine&)>& work) {
  const auto journal = session.open_journal();
  if (!journal) return session.fail_with(journal.error());
  const auto remedies = session.wiring.make_remedies(kinds.knowledge);
  if (!remedies) return session.refuse(remedies.error());
  RemedyMemory remembered(session.state_directory() + "/remedies.json");
  const std::unique_ptr<Connector> connector = session.wiring.make_connector(*session.wiring.clock);
  const std::unique_ptr<HttpClient> http = session.wiring.make_http();
  const Interrupts interrupts;
  Result<RunSummary> summary = [&] {
    std::optional<RunView> view;
    if (shown == Shown::yes) view.emplace(session, diffs);
    TwoSinks sinks(view ? &view->sink() : nullptr, also);
    EngineServices services;
    services.connector = connector.get();
    services.journal = journal->get();
    services.sink = &sinks;
    services.clock = session.wiring.clock;
    services.http = http.get();
    services.registry = &kinds.registry;
    services.remedies = remedies->get();
    services.remembered = &remembered;
    Engine engine(services, interrupts.level());
    return work(engine);
  }();
  if (summary) {
    if (shown == Shown::yes) write_page(session, **journal, summary->run);
    return static_cast<int>(summary->exit);
  }
  session.fail_with(summary.error());
  return static_cast<int>(exit_code_of(summary.error()));
}

}  // namespace millwright
