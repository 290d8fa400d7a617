#include <CLI/CLI.hpp>

#include "orchestrator/cli/options.hpp"
#include "orchestrator/cli/step_kinds.hpp"
#include "orchestrator/cli/verbs.hpp"
#include "orchestrator/playbook/playbook.hpp"
#include "orchestrator/report/event_schema.hpp"

namespace millwright {

void add_schema(CLI::App& app, Session& session) {
  const auto what = std::make_shared<std::string>("playbook");
  CLI::App* verb = app.add_subcommand("schema", "Print a JSON Schema: of playbooks or of events");
  verb->add_option("what", *what, "playbook (default), or events: the lines of --json")
      ->type_name("WHAT")
      ->check(CLI::IsMember({"playbook", "events"}));
  add_common_options(*verb, session.common);
  add_examples(*verb, {"millwright schema > millwright.schema.json",
                       "# yaml-language-server: $schema=millwright.schema.json    in the first line of a playbook",
                       "millwright schema events > events.schema.json"});
  verb->callback([&session, what] {
    session.chosen = [&session, what] {
      if (*what == "events") {
        session.console.out(event_schema().dump(2) + "\n");
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
