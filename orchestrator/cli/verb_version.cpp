#include <CLI/CLI.hpp>

#include "orchestrator/base/value.hpp"
#include "orchestrator/cli/options.hpp"
#include "orchestrator/cli/verbs.hpp"

namespace millwright {

void add_version(CLI::App& app, Session& session) {
  CLI::App* verb = app.add_subcommand("version", "Print the version");
  add_common_options(*verb, session.common);
  verb->callback([&session] {
    session.chosen = [&session] {
      session.console.out(session.common.json ? Value{{"version", session.wiring.version}}.dump() + "\n"
                                              : "millwright " + session.wiring.version + "\n");
      return kDone;
    };
  });
}

}  // namespace millwright
