#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <fstream>

#include "orchestrator/base/redact.hpp"
#include "orchestrator/base/shell.hpp"
#include "orchestrator/cli/engine_run.hpp"
#include "orchestrator/cli/options.hpp"
#include "orchestrator/cli/run_record.hpp"
#include "orchestrator/cli/verbs.hpp"
#include "orchestrator/report/event_data.hpp"
#include "orchestrator/report/html.hpp"
#include "orchestrator/report/views.hpp"

namespace millwright {
namespace {

struct Options {
  std::string run = "last";
  bool diff = false;
  bool html = false;
  std::string junit;
};

int write_junit(const Session& session, const std::vector<Event>& events, const std::string& path) {
  const std::string text = junit_report(events);
  if (path == "-") {
    session.console.out(text);
    return kDone;
  }
  std::ofstream out(path, std::ios::binary);
  out << text;
  out.close();
  if (!out)
    return session.fail_with(make_error(ErrorKind::io, "cannot write " + path).with_hint("- is standard output"));
  return kDone;
}

// " -i hosts.yml", as the run was given it: the journal keeps no secrets, so going on may need it.
std::string inventory_words(const std::vector<Event>& events) {
  std::string out;
  for (const Event& event : events) {
    if (event.type != EventType::run_started) continue;
    for (const std::string& source : texts_in(event.data, "inventory")) out += " -i " + shell_quote(source);
    break;
  }
  return out;
}

int write_page(const Session& session, Journal& journal, const std::string& run) {
  const auto page = write_html_report(journal, run, run_folder(session, run));
  if (!page) return session.fail_with(page.error());
  session.console.out(*page + "\n");
  return kDone;
}

int run(const Session& session, const Options& options) {
  const auto journal = session.open_kept_journal();
  if (!journal) return session.fail_with(journal.error());
  const auto record = find_run(**journal, options.run);
  if (!record) return session.fail_with(record.error());
  const auto events = (*journal)->events(record->id);
  if (!events) return session.fail_with(events.error());
  if (!options.junit.empty()) return write_junit(session, *events, options.junit);
  if (options.html) return write_page(session, **journal, record->id);
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
  if (!record->exit_code) {
    const std::string again = record->id + inventory_words(*events);
    session.console.out(
        fmt::format("not finished: millwright resume {0}, or take it back: millwright rollback {0}\n", again));
  }
  return kDone;
}

}  // namespace

void add_show(CLI::App& app, Session& session) {
  const auto options = std::make_shared<Options>();
  CLI::App* verb = app.add_subcommand("show", "Tell a run of the past, from the journal");
  verb->add_option("run", options->run, "Its id, the beginning of one, or last (default)")->type_name("RUN");
  verb->add_flag("-D,--diff", options->diff, "With the lines that changed");
  verb->add_flag("--html", options->html, "Write its page once more, and print where it is");
  verb->add_option("--junit", options->junit, "Write JUnit XML to FILE; - is standard output")->type_name("FILE");
  add_common_options(*verb, session.common);
  add_examples(*verb, {"millwright show", "millwright show --html", "millwright show 20261130-1412-k3f -D -v",
                       "millwright show last --json | jq 'select(.type == \"probe_finished\")'"});
  verb->callback([&session, options] { session.chosen = [&session, options] { return run(session, *options); }; });
}

}  // namespace millwright
