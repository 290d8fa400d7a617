#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "inventory/inventory.hpp"
#include "orchestrator/cli/options.hpp"
#include "orchestrator/cli/playbook_file.hpp"
#include "orchestrator/cli/step_kinds.hpp"
#include "orchestrator/cli/verbs.hpp"
#include "orchestrator/playbook/playbook.hpp"

namespace millwright {
namespace {

struct Options {
  InventoryOptions inventory;
  std::vector<std::string> playbooks;
};

Value error_json(const Error& error) {
  Value out = {{"message", error.message}, {"hint", error.hint}};
  if (error.where) {
    out["file"] = error.where->file;
    out["line"] = error.where->line;
    out["column"] = error.where->column;
  }
  return out;
}

int run(const Session& session, const Options& options) {
  const auto kinds = load_step_kinds(session);
  if (!kinds) return session.refuse(kinds.error());
  std::vector<Error> errors;
  std::string good;
  for (const std::string& name : options.playbooks) {
    const std::string path = playbook_file(name);
    const auto playbook = load_playbook(path, kinds->registry);
    if (playbook) {
      good += fmt::format("{}: no mistakes found, {} step{}\n", path, playbook->steps.size(),
                          playbook->steps.size() == 1 ? "" : "s");
    } else {
      errors.insert(errors.end(), playbook.error().begin(), playbook.error().end());
    }
  }
  if (!inventory_sources(options.inventory).empty()) {
    const auto inventory = load_inventory(session, options.inventory);
    if (inventory) {
      // How each host is reached, so that a bad port shows here and not in the middle of a run.
      for (const std::string& host : inventory->hosts()) {
        if (const auto target = inventory->target(host); !target) errors.push_back(target.error());
      }
      good += fmt::format("inventory: {} hosts, {} groups\n", inventory->hosts().size(), inventory->groups().size());
    } else {
      errors.insert(errors.end(), inventory.error().begin(), inventory.error().end());
    }
  }
  if (session.common.json) {
    Value out = {{"errors", Value::array()}};
    for (const Error& error : errors) out["errors"].push_back(error_json(error));
    session.console.out(out.dump(2, ' ', false, Value::error_handler_t::replace) + "\n");
    return errors.empty() ? kDone : kUsage;
  }
  session.console.out(good);
  return errors.empty() ? kDone : session.refuse(errors);
}

}  // namespace

void add_lint(CLI::App& app, Session& session) {
  const auto options = std::make_shared<Options>();
  CLI::App* verb = app.add_subcommand("lint", "Find every mistake, without connecting");
  verb->add_option("playbook", options->playbooks, "Playbooks")->type_name("PLAYBOOK...");
  add_inventory_options(*verb, options->inventory);
  add_common_options(*verb, session.common);
  add_examples(*verb, {"millwright lint serve.yml", "millwright lint playbooks/*.yml -i hosts.yml --json"});
  verb->callback([&session, options] { session.chosen = [&session, options] { return run(session, *options); }; });
}

}  // namespace millwright
