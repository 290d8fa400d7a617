#include <CLI/CLI.hpp>

#include "orchestrator/cli/options.hpp"
#include "orchestrator/cli/step_kinds.hpp"
#include "orchestrator/cli/verbs.hpp"
#include "orchestrator/playbook/playbook.hpp"
#include "orchestrator/report/event_schema.hpp"
#include "steps/server/planner/plan_schema.hpp"

namespace millwright {

void add_schema(CLI::App& app, Session& session) {
  const auto what = std::make_shared<std::string>("playbook");
  CLI::App* verb = app.add_subcommand("schema", "JSON Schema of playbooks, events or fit's answers");
  verb->add_option("what", *what, "playbook (default), events: the lines of --json, or fit: its --json")
      ->type_name("WHAT")
      ->check(CLI::IsMember({"playbook", "events", "fit"}));
  add_common_options(*verb, session.common);
  add_examples(*verb, {"millwright schema > millwright.schema.json",
                       "# yaml-language-server: $schema=millwright.schema.json    in the first line of a playbook",
                       "millwright schema events > events.schema.json", "millwright schema fit > fit.schema.json"});
  verb->callback([&session, what] {
    session.chosen = [&session, what] {
      if (*what == "events") {
        session.console.out(event_schema().dump(2) + "\n");
        return kDone;
      }
      if (*what == "fit") {
        session.console.out(planner::plan_schema().dump(2) + "\n");
        return kDone;
      }
      const auto kinds = load_step_kinds(session);
      if (!kinds) return session.refuse(kinds.error());
      session.console.out(playbook_schema(kinds->registry).dump(2) + "\n");
      return kDone;
    };
  });
}

}  // namespace millwright
