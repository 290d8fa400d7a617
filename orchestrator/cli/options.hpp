// Options that several verbs share. The options structs must outlive the parsing and the verb.
#pragma once

#include <string>
#include <vector>

#include "orchestrator/cli/session.hpp"

namespace millwright {

struct InventoryOptions {
  std::vector<std::string> sources;
  std::string limit;
};

// --json, --no-color, -v, --state
void add_common_options(CLI::App& verb, CommonOptions& options);
void add_inventory_options(CLI::App& verb, InventoryOptions& options);
// The examples under a verb's help, a line each.
void add_examples(CLI::App& verb, const std::vector<std::string>& lines);

// From -i, else $MILLWRIGHT_INVENTORY (colon separated), else nothing: then there is only localhost, and only where a
// pattern names it. Warnings go to standard error.
tl::expected<Inventory, std::vector<Error>> load_inventory(const Session& session, const InventoryOptions& options);
std::vector<std::string> inventory_sources(const InventoryOptions& options);

// Inventory::match, which says so when no inventory was given.
Result<std::vector<std::string>> match_hosts(const Inventory& inventory, const std::string& pattern,
                                             const InventoryOptions& options);

// The values of -e: "name=value other='two words'" (texts, split at blanks outside of quotes), a JSON object, or @FILE
// (YAML or JSON). Later ones win.
tl::expected<Value, std::vector<Error>> extra_variables(const std::vector<std::string>& given);

}  // namespace millwright
