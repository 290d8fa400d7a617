// drift and verify: look, and change nothing.
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "orchestrator/cli/engine_run.hpp"
#include "orchestrator/cli/play.hpp"
#include "orchestrator/cli/run_record.hpp"
#include "orchestrator/cli/verbs.hpp"

namespace millwright {
namespace {

// What a run left, as the journal knows it: nothing but secrets has to be given again.
int look_at_run(const Session& session, const StepKinds& kinds, const PlayOptions& options, const std::string& name,
                Asking asking) {
  const auto journal = session.open_kept_journal();
  if (!journal) return session.fail_with(journal.error());
  const auto record = find_applied_run(**journal, name);
  if (!record) return session.refuse(record.error());
  RunOptions today;
  today.asking = asking;
  const auto extra = extra_variables(options.extra);
  if (!extra) return session.refuse(extra.error());
  today.refreshed_inputs = *extra;
  if (!inventory_sources(options.inventory).empty()) {
    const auto inventory = load_inventory(session, options.inventory);
    if (!inventory) return session.refuse(inventory.error());
    for (const std::string& host : inventory->hosts()) {
      auto found = play_host(*inventory, host);
      if (found) today.refreshed_hosts.push_back(std::move(*found));
    }
  }
  return run_engine(session, kinds, Diffs::yes, [&](Engine& engine) { return engine.look_again(record->id, today); });
}

int look_at_playbook(const Session& session, const StepKinds& kinds, const PlayOptions& options, Asking asking) {
  auto play = prepare_play(session, kinds.registry, options);
  if (!play) return session.refuse(play.error());
  play->options.mode = Mode::plan;
  play->options.asking = asking;
  return run_engine(session, kinds, Diffs::yes, [&](Engine& engine) {
    return engine.run(play->playbook, play->text, play->inputs, play->hosts, play->options);
  });
}

struct Options {
  PlayOptions play;
  std::string run;
};

int look(const Session& session, const Options& options, Asking asking) {
  const auto kinds = load_step_kinds(session);
  if (!kinds) return session.refuse(kinds.error());
  if (!options.play.playbook.empty() && !options.run.empty()) {
    return session.refuse(make_error(ErrorKind::usage, "a playbook and --run are two different things to look at")
                              .with_hint("give one of them"));
  }
  if (!options.play.playbook.empty()) return look_at_playbook(session, *kinds, options.play, asking);
  return look_at_run(session, *kinds, options.play, options.run.empty() ? "last" : options.run, asking);
}

CLI::App* add_look(CLI::App& app, Session& session, Asking asking, const char* name, const char* description) {
  const auto options = std::make_shared<Options>();
  CLI::App* verb = app.add_subcommand(name, description);
  add_play_options(*verb, options->play);
  verb->get_option("playbook")->required(false);
  verb->add_option("--run", options->run, "What this run left: its id, the beginning of one, or last")
      ->type_name("RUN");
  add_common_options(*verb, session.common);
  verb->callback([&session, options, asking] {
    session.chosen = [&session, options, asking] { return look(session, *options, asking); };
  });
  return verb;
}

constexpr const char* kCodes =
    "\nExit codes: 0 all as it should be, 1 usage, 2 something is not, 4 unreachable,\n  130 interrupted";

}  // namespace

void add_drift(CLI::App& app, Session& session) {
  CLI::App* verb = add_look(app, session, Asking::drift, "drift", "Ask what is no longer as it should be");
  verb->footer(std::string(kCodes) +
               "\n\nWithout PLAYBOOK the last run is looked at.\n"
               "\nExamples:\n  millwright drift serve.yml -i hosts.yml\n"
               "  millwright drift --run 20261130-1412-k3f --json");
}

void add_verify(CLI::App& app, Session& session) {
  CLI::App* verb = add_look(app, session, Asking::verify, "verify", "As drift, and run the tests once more");
  verb->footer(std::string(kCodes) +
               "\n\nWithout PLAYBOOK the last run is looked at: what its servers gave is known then.\n"
               "\nExamples:\n  millwright verify\n  millwright verify --run 20261130-1412-k3f -v");
}

}  // namespace millwright
