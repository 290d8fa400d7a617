#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "inventory/inventory.hpp"
#include "orchestrator/base/units.hpp"
#include "orchestrator/cli/engine_run.hpp"
#include "orchestrator/cli/play.hpp"
#include "orchestrator/cli/run_record.hpp"
#include "orchestrator/cli/verbs.hpp"

namespace millwright {
namespace {

struct Options {
  std::string run = "last";
  InventoryOptions inventory;
  std::vector<std::string> extra;
  std::string lock_wait = "0s";
  std::string from_node;
  bool yes = false;
  bool force_undo = false;
  bool diff = false;
  int to = 0;  // release of a server
};

// What the inventory and -e say today: the journal keeps no secrets, so they come from here.
tl::expected<RunOptions, std::vector<Error>> refreshed(const Session& session, const Options& options) {
  RunOptions out;
  std::vector<Error> errors;
  out.inventory = options.inventory.sources;
  const auto wait = parse_duration(options.lock_wait);
  if (wait) {
    out.lock_wait = *wait;
  } else {
    errors.push_back(wrap(wait.error(), "reading --lock-wait"));
  }
  const auto extra = extra_variables(options.extra);
  if (extra) {
    out.refreshed_inputs = *extra;
  } else {
    errors.insert(errors.end(), extra.error().begin(), extra.error().end());
  }
  if (!inventory_sources(options.inventory).empty()) {
    const auto inventory = load_inventory(session, options.inventory);
    if (!inventory) {
      errors.insert(errors.end(), inventory.error().begin(), inventory.error().end());
      return tl::unexpected(std::move(errors));
    }
    for (const std::string& name : inventory->hosts()) {
      auto host = play_host(*inventory, name);
      // A host that the run does not touch may be as wrong as it likes.
      if (host) out.refreshed_hosts.push_back(std::move(*host));
    }
  }
  if (!errors.empty()) return tl::unexpected(std::move(errors));
  return out;
}

Result<RunRecord> record_of(const Session& session, const std::string& name) {
  const auto journal = session.open_kept_journal();
  if (!journal) return fail(journal.error());
  return find_applied_run(**journal, name);
}

// A run that changed nothing, or of which nothing is left to do, is not gone on with: what people mean then is apply.
Result<void> may_go_on(const RunRecord& record) {
  const auto no = [&](const std::string& why) {
    return fail(make_error(ErrorKind::usage, fmt::format("run {} {}: there is nothing to go on with", record.id, why))
                    .with_hint("millwright apply PLAYBOOK runs it anew; millwright runs lists what there is"));
  };
  if (record.verb != "apply") return no(fmt::format("is of the verb {}, which changes nothing by itself", record.verb));
  if (!record.finished || !record.exit_code) return {};
  if (*record.exit_code == static_cast<int>(ExitCode::done)) return no("is done");
  if (*record.exit_code == static_cast<int>(ExitCode::rolled_back)) return no("was rolled back");
  return {};
}

Result<void> may_take_back(const RunRecord& record) {
  if (record.verb == "apply" || record.verb == "rollback") return {};
  return fail(
      make_error(ErrorKind::usage, fmt::format("run {} is of the verb {} and changed nothing", record.id, record.verb))
          .with_hint("name the run of the apply: millwright runs lists them"));
}

// On a terminal a person is asked; elsewhere the answer must be on the command line.
bool may_begin(const Session& session, const Options& options, const std::string& question) {
  return options.yes || session.confirm(question);
}

int resume(const Session& session, const Options& options) {
  const auto kinds = load_step_kinds(session);
  if (!kinds) return session.refuse(kinds.error());
  const auto record = record_of(session, options.run);
  if (!record) return session.refuse(record.error());
  if (const auto may = may_go_on(*record); !may) return session.refuse(may.error());
  auto today = refreshed(session, options);
  if (!today) return session.refuse(today.error());
  today->why = "resume " + record->id;
  return run_engine(session, *kinds, options.diff ? Diffs::yes : Diffs::no,
                    [&](Engine& engine) { return engine.resume(record->id, *today); });
}

int rollback_from_node(const Session& session, const StepKinds& kinds, const Options& options,
                       const RunOptions& today) {
  for (const PlayHost& host : today.refreshed_hosts) {
    if (host.target.name != options.from_node) continue;
    return run_engine(session, kinds, Diffs::no,
                      [&](Engine& engine) { return engine.rollback_from_node(host, options.run, today); });
  }
  return session.refuse(
      make_error(ErrorKind::usage, fmt::format("the inventory has no usable host '{}'", options.from_node))
          .with_hint("--from-node needs -i INVENTORY; millwright lint -i INVENTORY says what is wrong"));
}

int rollback(const Session& session, const Options& options) {
  if (options.to > 0) {
    if (options.run == "last")
      return session.refuse(
          make_error(ErrorKind::usage, "--to needs the server whose release it is")
              .with_hint("millwright rollback HOST/NAME --to N; `millwright releases HOST` lists them"));
    return run_release_again(session, {options.run, options.to, options.yes, options.lock_wait, options.inventory});
  }
  const auto kinds = load_step_kinds(session);
  if (!kinds) return session.refuse(kinds.error());
  auto today = refreshed(session, options);
  if (!today) return session.refuse(today.error());
  today->force_undo = options.force_undo;
  if (!options.from_node.empty()) {
    if (options.run == "last")
      return session.refuse(make_error(ErrorKind::usage, "--from-node needs the id of the run")
                                .with_hint("the folders of /var/lib/millwright/runs on the node are named by it"));
    if (!may_begin(session, options, fmt::format("Take back what {} knows of run {}?", options.from_node, options.run)))
      return kUsage;
    today->why = "rollback " + options.run;
    return rollback_from_node(session, *kinds, options, *today);
  }
  const auto record = record_of(session, options.run);
  if (!record) return session.refuse(record.error());
  if (const auto may = may_take_back(*record); !may) return session.refuse(may.error());
  today->why = "rollback " + record->id;
  std::vector<std::string> hosts;
  if (!options.inventory.limit.empty()) {
    const auto inventory = load_inventory(session, options.inventory);
    if (!inventory) return session.refuse(inventory.error());
    const auto matched = match_hosts(*inventory, options.inventory.limit, options.inventory);
    if (!matched) return session.refuse(matched.error());
    hosts = *matched;
  }
  if (!may_begin(session, options, fmt::format("Take back what run {} did?", record->id))) return kUsage;
  return run_engine(session, *kinds, Diffs::no,
                    [&](Engine& engine) { return engine.rollback(record->id, hosts, *today); });
}

// What was asked for is done: 3 is for runs that failed.
int asked_for(int code) { return code == static_cast<int>(ExitCode::rolled_back) ? kDone : code; }

CLI::App* add_again(CLI::App& app, Session& session, Options& options, const char* name, const char* description) {
  CLI::App* verb = app.add_subcommand(name, description);
  verb->add_option("run", options.run, "Its id, the beginning of one, or last (default)")->type_name("RUN");
  add_inventory_options(*verb, options.inventory);
  verb->add_option("-e,--extra-vars", options.extra, "Secret inputs once more; the journal keeps none")
      ->type_name("VALUES")
      ->allow_extra_args(false);
  verb->add_option("--lock-wait", options.lock_wait, "Wait so long for another run on the same node to end")
      ->type_name("DURATION");
  add_common_options(*verb, session.common);
  return verb;
}

}  // namespace

void add_resume(CLI::App& app, Session& session) {
  const auto options = std::make_shared<Options>();
  CLI::App* verb = add_again(app, session, *options, "resume", "Go on with a run that was interrupted or killed");
  verb->add_flag("-D,--diff", options->diff, "Show the lines that change");
  add_examples(*verb, {"millwright resume", "millwright resume 20261130-1412-k3f -i hosts.yml"});
  verb->callback([&session, options] { session.chosen = [&session, options] { return resume(session, *options); }; });
}

void add_rollback(CLI::App& app, Session& session) {
  const auto options = std::make_shared<Options>();
  CLI::App* verb = add_again(app, session, *options, "rollback", "Take back what a run did, the last change first");
  verb->add_flag("-y,--yes", options->yes, "Do not ask");
  verb->add_flag("--force-undo", options->force_undo,
                 "Overwrite also what someone else changed since (kept on the node, beside the undo)");
  auto* to =
      verb->add_option("--to", options->to, "Run release N of the server HOST/NAME, named in place of RUN, again")
          ->type_name("N")
          ->check(CLI::PositiveNumber);
  verb->add_option("--from-node", options->from_node, "Use what this host itself knows of RUN: the journal is lost")
      ->type_name("HOST")
      ->excludes(to);
  add_examples(*verb, {"millwright rollback", "millwright rollback gpu1/llm --to 3 -i hosts.yml",
                       "millwright rollback 20261130-1412-k3f -i hosts.yml -l gpu1",
                       "millwright rollback 20261130-1412-k3f -i hosts.yml --from-node gpu1",
                       "millwright rollback 20261130-1412-k3f --force-undo    after an undo was refused"});
  verb->callback(
      [&session, options] { session.chosen = [&session, options] { return asked_for(rollback(session, *options)); }; });
}

}  // namespace millwright
