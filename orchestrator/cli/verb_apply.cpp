#include <CLI/CLI.hpp>

#include "orchestrator/cli/engine_run.hpp"
#include "orchestrator/cli/play.hpp"
#include "orchestrator/cli/verbs.hpp"

namespace millwright {
namespace {

int run(const Session& session, const PlayOptions& options) {
  const auto kinds = load_step_kinds(session);
  if (!kinds) return session.refuse(kinds.error());
  const auto play = prepare_play(session, kinds->registry, options);
  if (!play) return session.refuse(play.error());
  const Diffs diffs = options.diff || options.check ? Diffs::yes : Diffs::no;
  return run_engine(session, *kinds, diffs, [&](Engine& engine) {
    return engine.run(play->playbook, play->text, play->inputs, play->hosts, play->options);
  });
}

void add_play_options(CLI::App& verb, PlayOptions& options) {
  verb.add_option("playbook", options.playbook, "A file, or the name of a shipped playbook")
      ->type_name("PLAYBOOK")
      ->required();
  add_inventory_options(verb, options.inventory);
  verb.add_option("-e,--extra-vars", options.extra, "Inputs: name=value, a JSON object, or @FILE; again for more")
      ->type_name("VALUES")
      ->allow_extra_args(false);
  verb.add_option("-t,--tags", options.tags, "Only steps with one of these tags, comma separated")
      ->type_name("TAGS")
      ->delimiter(',')
      ->allow_extra_args(false);
  verb.add_option("--skip-tags", options.skip_tags, "No steps with one of these tags")
      ->type_name("TAGS")
      ->delimiter(',')
      ->allow_extra_args(false);
  verb.add_option("--start-at", options.start_at, "Take the steps before this one as done")->type_name("STEP");
  verb.add_option("-f,--forks", options.forks, "Hosts at once (default: 50)")
      ->type_name("N")
      ->check(CLI::Range(1, 10000));
  verb.add_option("--lock-wait", options.lock_wait, "Wait so long for another run on the same node to end")
      ->type_name("DURATION");
}

constexpr const char* kExitCodes =
    "\nExit codes: 0 done, 1 usage, 2 failed and left as it is, 3 failed and rolled back,\n"
    "  4 unreachable, 5 rollback incomplete, 6 inconclusive, 7 lock held, 130 interrupted";

}  // namespace

void add_apply(CLI::App& app, Session& session) {
  const auto options = std::make_shared<PlayOptions>();
  CLI::App* verb = app.add_subcommand("apply", "Run a playbook: change, test, repair or take back");
  add_play_options(*verb, *options);
  verb->add_flag("-C,--check", options->check, "Only ask and show what would change, as plan does");
  verb->add_flag("-D,--diff", options->diff, "Show the lines that change");
  verb->add_flag("--no-rollback", options->no_rollback, "Leave failures as they are, to look at them");
  verb->add_flag("--no-pipeline", options->no_pipeline, "Send each action only when the one before it has ended");
  add_common_options(*verb, session.common);
  verb->footer(std::string(kExitCodes) +
               "\n\nExamples:\n"
               "  millwright apply serve.yml -i hosts.yml -l gpu1\n"
               "  millwright apply serve.yml -i hosts.ini -e model=/srv/m.gguf -e @site.yml");
  verb->callback([&session, options] { session.chosen = [&session, options] { return run(session, *options); }; });
}

void add_plan(CLI::App& app, Session& session) {
  const auto options = std::make_shared<PlayOptions>();
  options->check = true;
  CLI::App* verb = app.add_subcommand("plan", "Show what apply would change and how to undo it");
  add_play_options(*verb, *options);
  add_common_options(*verb, session.common);
  verb->footer(
      "\nExamples:\n  millwright plan serve.yml -i hosts.yml -l gpu1\n"
      "  millwright plan serve.yml -i hosts.yml -v     with the scripts that would run");
  verb->callback([&session, options] { session.chosen = [&session, options] { return run(session, *options); }; });
}

}  // namespace millwright
