#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "inventory/inventory.hpp"
#include "orchestrator/cli/options.hpp"
#include "orchestrator/cli/verbs.hpp"

namespace millwright {
namespace {

struct Options {
  InventoryOptions inventory;
  bool list = false;
  bool graph = false;
  std::string host;
  std::vector<std::string> explain;
};

std::string shown(const Value& value) {
  return value.is_string() ? value.get<std::string>() : value.dump(-1, ' ', false, Value::error_handler_t::replace);
}

int host_variables(const Session& session, const Inventory& inventory, const std::string& host) {
  const Value all = inventory.to_json();
  const Value& variables = all["_meta"]["hostvars"];
  if (const auto known = inventory.hosts(); std::find(known.begin(), known.end(), host) == known.end()) {
    const auto found = inventory.match(host);
    return session.refuse(found ? make_error(ErrorKind::usage, fmt::format("'{}' is a group, not a host", host))
                                      .with_hint("millwright inventory --graph shows all hosts")
                                : found.error());
  }
  session.console.out((variables.contains(host) ? variables[host] : Value::object()).dump(2) + "\n");
  return kDone;
}

// Weakest first; the last one is what the host gets.
int explain(const Session& session, const Inventory& inventory, const std::string& host, const std::string& variable) {
  if (const auto target = inventory.variables(host); !target && inventory.groups_of(host).size() <= 1)
    return session.refuse(target.error());
  const std::vector<VariableSource> sources = inventory.explain(host, variable);
  if (session.common.json) {
    Value out = Value::array();
    for (const VariableSource& source : sources) {
      out.push_back({{"value", source.value},
                     {"source", source.source},
                     {"file", source.mark.file},
                     {"line", source.mark.line},
                     {"wins", source.wins}});
    }
    session.console.out(out.dump(2) + "\n");
    return sources.empty() ? kUsage : kDone;
  }
  if (sources.empty()) {
    session.console.err(fmt::format("no source gives {} a variable '{}'\n", host, variable));
    return kUsage;
  }
  for (const VariableSource& source : sources) {
    session.console.out(
        fmt::format("{} {} = {}    {}{}\n", source.wins ? "*" : " ", variable, shown(source.value), source.source,
                    source.mark.line > 0 ? fmt::format("  {}:{}", source.mark.file, source.mark.line) : ""));
  }
  session.console.out(fmt::format("{} gets the one with *; the others are weaker\n", host));
  return kDone;
}

int run(const Session& session, const Options& options) {
  if (inventory_sources(options.inventory).empty()) {
    return session.refuse(
        make_error(ErrorKind::usage, "no inventory was given").with_hint("add -i FILE, or set MILLWRIGHT_INVENTORY"));
  }
  const auto inventory = load_inventory(session, options.inventory);
  if (!inventory) return session.refuse(inventory.error());
  if (!options.host.empty()) return host_variables(session, *inventory, options.host);
  if (!options.explain.empty()) return explain(session, *inventory, options.explain[0], options.explain[1]);
  if (options.list || session.common.json) {
    session.console.out(inventory->to_json().dump(4, ' ', false, Value::error_handler_t::replace) + "\n");
    return kDone;
  }
  if (options.graph) {
    session.console.out(inventory->to_tree());
    return kDone;
  }
  const auto hosts = inventory->match(options.inventory.limit.empty() ? "all" : options.inventory.limit);
  if (!hosts) return session.refuse(hosts.error());
  for (const std::string& host : *hosts) session.console.out(host + "\n");
  return kDone;
}

}  // namespace

void add_inventory(CLI::App& app, Session& session) {
  const auto options = std::make_shared<Options>();
  CLI::App* verb = app.add_subcommand("inventory", "Show hosts, groups and variables");
  add_inventory_options(*verb, options->inventory);
  verb->add_flag("--list", options->list, "Everything as JSON, as ansible-inventory --list prints it");
  verb->add_flag("--graph", options->graph, "Groups and hosts as a tree");
  verb->add_option("--host", options->host, "The variables of one host, as JSON")->type_name("HOST");
  verb->add_option("--explain", options->explain, "Where a host's variable comes from")
      ->type_name("HOST VAR")
      ->type_size(1)
      ->expected(2);
  add_common_options(*verb, session.common);
  add_examples(*verb, {"millwright inventory -i hosts.yml -l 'gpu:!gpu3'", "millwright inventory -i hosts.ini --graph",
                       "millwright inventory -i prod/ --explain gpu1 ansible_user"});
  verb->callback([&session, options] { session.chosen = [&session, options] { return run(session, *options); }; });
}

}  // namespace millwright
