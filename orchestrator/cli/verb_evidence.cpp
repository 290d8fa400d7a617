#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <fstream>
#include <sstream>

#include "orchestrator/base/text.hpp"
#include "orchestrator/base/units.hpp"
#include "orchestrator/cli/options.hpp"
#include "orchestrator/cli/run_record.hpp"
#include "orchestrator/cli/verbs.hpp"
#include "orchestrator/report/text_layout.hpp"

namespace millwright {
namespace {

struct Options {
  std::string run = "last";
  std::string name;
};

int print_one(const Session& session, const std::vector<EvidenceRecord>& records, const std::string& name) {
  std::vector<std::string> names;
  for (const EvidenceRecord& record : records) {
    names.push_back(record.name);
    if (record.name != name) continue;
    std::ifstream in(record.path, std::ios::binary);
    std::ostringstream bytes;
    if (in && in.peek() != std::ifstream::traits_type::eof()) bytes << in.rdbuf();
    if (!in && !in.eof())
      return session.fail_with(make_error(ErrorKind::io, "cannot read " + record.path).with_hint("was it deleted?"));
    if (session.console.out_is == Terminal::no) {
      session.console.out(bytes.str());
    } else {
      for (const std::string& line : split_lines(bytes.str())) session.console.out(printable(line) + "\n");
    }
    return kDone;
  }
  const auto near = nearest(name, names);
  return session.fail_with(
      make_error(ErrorKind::usage, fmt::format("this run kept no '{}'", name))
          .with_hint(near ? fmt::format("did you mean '{}'?", *near) : "without a name, all are listed"));
}

int run(const Session& session, const Options& options) {
  const auto journal = session.open_kept_journal();
  if (!journal) return session.fail_with(journal.error());
  const auto record = find_run(**journal, options.run);
  if (!record) return session.fail_with(record.error());
  const auto evidence = (*journal)->evidence(record->id);
  if (!evidence) return session.fail_with(evidence.error());
  if (!options.name.empty()) return print_one(session, *evidence, options.name);
  if (session.common.json) {
    Value out = Value::array();
    for (const EvidenceRecord& one : *evidence) {
      out.push_back(
          {{"host", one.host}, {"step", one.step}, {"name", one.name}, {"path", one.path}, {"bytes", one.bytes}});
    }
    session.console.out(out.dump(2, ' ', false, Value::error_handler_t::replace) + "\n");
    return kDone;
  }
  if (evidence->empty()) session.console.out(fmt::format("run {} kept no evidence\n", record->id));
  for (const EvidenceRecord& one : *evidence) {
    session.console.out(fmt::format("{}  {}  {}  {}\n", printable(one.host), printable(one.step), printable(one.name),
                                    format_size(one.bytes)));
  }
  if (!evidence->empty()) session.console.out(fmt::format("\nmillwright evidence {} NAME prints one\n", record->id));
  return kDone;
}

}  // namespace

void add_evidence(CLI::App& app, Session& session) {
  const auto options = std::make_shared<Options>();
  CLI::App* verb = app.add_subcommand("evidence", "Show what a run kept: raw answers, logs");
  verb->add_option("run", options->run, "Its id, the beginning of one, or last (default)")->type_name("RUN");
  verb->add_option("name", options->name, "Print this one, byte by byte")->type_name("NAME");
  add_common_options(*verb, session.common);
  add_examples(*verb, {"millwright evidence last", "millwright evidence last known-answers-1.json | jq ."});
  verb->callback([&session, options] { session.chosen = [&session, options] { return run(session, *options); }; });
}

}  // namespace millwright
