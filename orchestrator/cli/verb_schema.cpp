#include <CLI/CLI.hpp>

#include "orchestrator/cli/options.hpp"
#include "orchestrator/cli/step_kinds.hpp"
#include "orchestrator/cli/verbs.hpp"
#include "orchestrator/playbook/playbook.hpp"

namespace millwright {

void add_schema(CLI::App& app, Session& session) {
  CLI::App* verb = app.add_subcommand("schema", "Print the JSON Schema of playbooks, for editors");
  add_common_options(*verb, session.common);
  add_examples(*verb, {"millwright schema > millwright.schema.json",
                       "# yaml-language-server: $schema=millwright.schema.json    in the first line of a playbook"});
  verb->callback([&session] {
    session.chosen = [&session] {
      const auto kinds = load_step_kinds(session);
      if (!kinds) return session.refuse(kinds.error());
      session.console.out(playbook_schema(kinds->registry).dump(2) + "\n");
      return kDone;
    };
  });
}

}  // namespace millwright
