#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "orchestrator/cli/options.hpp"
#include "orchestrator/cli/run_record.hpp"
#include "orchestrator/cli/verbs.hpp"
#include "orchestrator/report/text_layout.hpp"

namespace millwright {
namespace {

int run(const Session& session, std::size_t newest) {
  const auto journal = session.open_kept_journal();
  if (!journal) return session.fail_with(journal.error());
  const auto runs = (*journal)->runs(newest);
  if (!runs) return session.fail_with(runs.error());
  if (session.common.json) {
    Value out = Value::array();
    for (const RunRecord& record : *runs) out.push_back(run_json(record));
    session.console.out(out.dump(2, ' ', false, Value::error_handler_t::replace) + "\n");
    return kDone;
  }
  if (runs->empty()) {
    session.console.out(fmt::format("no runs yet in {}\n", session.state_directory()));
    return kDone;
  }
  for (const RunRecord& record : *runs) {
    const std::string head = fmt::format("{:<18}  {:<8}  {:<12}  ", record.id, record.verb, run_outcome(record));
    const std::string tail = record.sentence.empty() ? record.playbook_path : record.sentence;
    const std::size_t room = session.console.columns > head.size() + 10 ? session.console.columns - head.size() : 10;
    session.console.out(head + cut(printable(tail), room) + "\n");
  }
  session.console.out("\nmillwright show RUN tells one of them; `last` is the newest\n");
  return kDone;
}

}  // namespace

void add_runs(CLI::App& app, Session& session) {
  const auto newest = std::make_shared<std::size_t>(20);
  CLI::App* verb = app.add_subcommand("runs", "List the runs of the past, newest first");
  verb->add_option("-n,--newest", *newest, "How many (default: 20)")->type_name("N");
  add_common_options(*verb, session.common);
  add_examples(*verb, {"millwright runs -n 5", "millwright runs --json"});
  verb->callback([&session, newest] { session.chosen = [&session, newest] { return run(session, *newest); }; });
}

}  // namespace millwright
