#include <CLI/CLI.hpp>

#include "orchestrator/cli/engine_run.hpp"
#include "orchestrator/cli/plan_file.hpp"
#include "orchestrator/cli/play.hpp"
#include "orchestrator/cli/verbs.hpp"

namespace millwright {
namespace {

int run(const Session& session, const PlayOptions& options) {
  const auto kinds = load_step_kinds(session);
  if (!kinds) return session.refuse(kinds.error());
  if (names_plan_file(options.playbook)) return apply_plan_file(session, *kinds, options);
  const auto play = prepare_play(session, kinds->registry, options);
  if (!play) return session.refuse(play.error());
  if (!options.out.empty()) return write_plan_file(session, *kinds, options, *play);
  const Diffs diffs = options.diff || options.check ? Diffs::yes : Diffs::no;
  return run_engine(session, *kinds, diffs, [&](Engine& engine) {
    return engine.run(play->playbook, play->text, play->inputs, play->hosts, play->options);
  });
}

constexpr const char* kExitCodes =
    "\nExit codes: 0 done, 1 usage, 2 failed and left as it is, 3 failed and rolled back,\n"
    "  4 unreachable, 5 rollback incomplete, 6 inconclusive, 7 lock held, 8 plan stale,\n"
    "  130 interrupted";

}  // namespace

void add_apply(CLI::App& app, Session& session) {
  const auto options = std::make_shared<PlayOptions>();
  CLI::App* verb = app.add_subcommand("apply", "Run a playbook or saved plan, test, repair, undo");
  add_play_options(*verb, *options);
  verb->add_flag("-C,--check", options->check, "Only ask and show what would change, as plan does");
  verb->add_flag("-D,--diff", options->diff, "Show the lines that change");
  verb->add_flag("--no-rollback", options->no_rollback, "Leave failures as they are, to look at them");
  verb->add_flag("--no-pipeline", options->no_pipeline, "Send each action only when the one before it has ended");
  add_common_options(*verb, session.common);
  verb->footer(std::string(kExitCodes) +
               "\n\nExamples:\n"
               "  millwright apply serve.yml -i hosts.yml -l gpu1\n"
               "  millwright apply serve.yml -i hosts.ini -e model=/srv/m.gguf -e @site.yml\n"
               "  millwright apply plan.json      exactly what plan --out wrote, or nothing");
  verb->callback([&session, options] { session.chosen = [&session, options] { return run(session, *options); }; });
}

void add_plan(CLI::App& app, Session& session) {
  const auto options = std::make_shared<PlayOptions>();
  options->check = true;
  CLI::App* verb = app.add_subcommand("plan", "Show what apply would change and how to undo it");
  add_play_options(*verb, *options);
  verb->add_option("--out", options->out, "Write it to FILE, for `millwright apply FILE`")->type_name("FILE");
  add_common_options(*verb, session.common);
  verb->footer(
      "\nExamples:\n  millwright plan serve.yml -i hosts.yml -l gpu1\n"
      "  millwright plan serve.yml -i hosts.yml -v     with the scripts that would run\n"
      "  millwright plan serve.yml -i hosts.yml --out plan.json");
  verb->callback([&session, options] { session.chosen = [&session, options] { return run(session, *options); }; });
}

}  // namespace millwright
