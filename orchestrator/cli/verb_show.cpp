#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "orchestrator/base/redact.hpp"
#include "orchestrator/cli/options.hpp"
#include "orchestrator/cli/run_record.hpp"
#include "orchestrator/cli/verbs.hpp"
#include "orchestrator/report/views.hpp"

namespace millwright {
namespace {

struct Options {
  std::string run = "last";
  bool diff = false;
};

int run(const Session& session, const Options& options) {
  const auto journal = session.open_journal();
  if (!journal) return session.fail_with(journal.error());
  const auto record = find_run(**journal, options.run);
  if (!record) return session.fail_with(record.error());
  const auto events = (*journal)->events(record->id);
  if (!events) return session.fail_with(events.error());
  if (session.common.json) {
    NdjsonView view(session.console.out);
    for (const Event& event : *events) view.on_event(event);
    return kDone;
  }
  session.console.out(fmt::format("{} {} · started {} · {}\n", record->verb, printable(record->playbook_path),
                                  iso_utc(record->started), run_outcome(*record)));
  ReportOptions report;
  report.columns = session.console.columns;
  report.paint = session.paint();
  report.diffs = options.diff;
  report.verbose = session.common.verbose;
  PlainView view(session.console.out, report);
  for (const Event& event : *events) view.on_event(event);
  const auto evidence = (*journal)->evidence(record->id);
  if (evidence && !evidence->empty())
    session.console.out(fmt::format("evidence  {} file{}: millwright evidence {}\n", evidence->size(),
                                    evidence->size() == 1 ? "" : "s", record->id));
  if (!record->exit_code)
    session.console.out(
        fmt::format("not finished: millwright resume {0}, or take it back: millwright rollback {0}\n", record->id));
  return kDone;
}

}  // namespace

void add_show(CLI::App& app, Session& session) {
  const auto options = std::make_shared<Options>();
  CLI::App* verb = app.add_subcommand("show", "Tell a run of the past, from the journal");
  verb->add_option("run", options->run, "Its id, the beginning of one, or last (default)")->type_name("RUN");
  verb->add_flag("-D,--diff", options->diff, "With the lines that changed");
  add_common_options(*verb, session.common);
  add_examples(*verb, {"millwright show", "millwright show 20261130-1412-k3f -D -v",
                       "millwright show last --json | jq 'select(.type == \"probe_finished\")'"});
  verb->callback([&session, options] { session.chosen = [&session, options] { return run(session, *options); }; });
}

}  // namespace millwright
