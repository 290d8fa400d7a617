#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <optional>

#include "inventory/inventory.hpp"
#include "orchestrator/cli/options.hpp"
#include "orchestrator/cli/play.hpp"
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

using Errors = std::vector<Error>;

std::string counted(std::size_t number, const char* what) {
  return fmt::format("{} {}{}", number, what, number == 1 ? "" : "s");
}

// What only shows once hosts are known: a pattern that means none, names of variables that none of them has.
void check_with_hosts(const Inventory& inventory, const Options& options, const Playbook& playbook,
                      const StepRegistry& registry, Errors& errors) {
  const auto hosts = chosen_hosts(inventory, playbook.hosts, options.inventory);
  if (!hosts) {
    errors.push_back(wrap(hosts.error(), "checking " + playbook.path));
    return;
  }
  ParseOptions known;
  known.inventory_variables.emplace();
  for (const std::string& host : *hosts) known.inventory_variables->merge(inventory.variable_names(host));
  const auto again = load_playbook(playbook.path, registry, known);
  if (!again) errors.insert(errors.end(), again.error().begin(), again.error().end());
}

void check_playbook(const std::string& name, const Inventory* inventory, const Options& options,
                    const StepRegistry& registry, std::string& good, Errors& errors) {
  const std::size_t before = errors.size();
  const auto playbook = load_named_playbook(name, registry);
  if (!playbook) {
    errors.insert(errors.end(), playbook.error().begin(), playbook.error().end());
    return;
  }
  if (inventory != nullptr) check_with_hosts(*inventory, options, *playbook, registry, errors);
  if (errors.size() == before)
    good += fmt::format("{}: no mistakes found, {}\n", playbook->path, counted(playbook->steps.size(), "step"));
}

// How each host is reached, so that a bad port shows here and not in the middle of a run.
void check_inventory(const Inventory& inventory, const Options& options, std::string& good, Errors& errors) {
  for (const std::string& host : inventory.hosts()) {
    if (const auto target = inventory.target(host); !target) errors.push_back(target.error());
  }
  if (!options.inventory.limit.empty() && options.playbooks.empty()) {
    const auto limit = inventory.match(options.inventory.limit);
    if (!limit) errors.push_back(wrap(limit.error(), fmt::format("applying --limit '{}'", options.inventory.limit)));
  }
  good += fmt::format("inventory: {}, {}\n", counted(inventory.hosts().size(), "host"),
                      counted(inventory.groups().size(), "group"));
}

int run(const Session& session, const Options& options) {
  const auto kinds = load_step_kinds(session);
  if (!kinds) return session.refuse(kinds.error());
  const bool given = !inventory_sources(options.inventory).empty();
  if (!given && (options.playbooks.empty() || !options.inventory.limit.empty())) {
    return session.refuse(make_error(ErrorKind::usage, options.playbooks.empty() ? "there is nothing to look at"
                                                                                 : "--limit needs an inventory")
                              .with_hint(options.playbooks.empty() ? "name playbooks, or an inventory with -i"
                                                                   : "add -i FILE, or set MILLWRIGHT_INVENTORY"));
  }
  Errors errors;
  std::string good;
  std::optional<Inventory> inventory;
  Errors of_inventory;
  if (given) {
    auto loaded = load_inventory(session, options.inventory);
    if (loaded) {
      inventory = std::move(*loaded);
    } else {
      of_inventory = std::move(loaded.error());
    }
  }
  for (const std::string& name : options.playbooks)
    check_playbook(name, inventory ? &*inventory : nullptr, options, kinds->registry, good, errors);
  if (inventory) check_inventory(*inventory, options, good, errors);
  errors.insert(errors.end(), of_inventory.begin(), of_inventory.end());
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
  verb->footer(
      "\nWith an inventory also: does the playbook's pattern (and -l) mean any of its hosts,\n"
      "and is each variable there that the playbook reads?\n"
      "\nExamples:\n  millwright lint serve.yml\n  millwright lint playbooks/*.yml -i hosts.yml --json");
  verb->callback([&session, options] { session.chosen = [&session, options] { return run(session, *options); }; });
}

}  // namespace millwright
