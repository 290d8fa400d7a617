// A run as the command line asks for it, with every mistake found before anything is contacted.
#pragma once

#include <string>
#include <vector>

#include "orchestrator/cli/options.hpp"
#include "orchestrator/cli/session.hpp"
#include "orchestrator/engine/engine.hpp"

namespace millwright {

struct PlayOptions {
  std::string playbook;
  InventoryOptions inventory;
  std::vector<std::string> extra;
  std::vector<std::string> tags;
  std::vector<std::string> skip_tags;
  std::string start_at;
  std::string lock_wait = "0s";
  std::string out;  // plan: write it to this file
  int forks = 50;
  int steps_at_once = 4;
  bool check = false;
  bool diff = false;
  bool no_rollback = false;
  bool no_pipeline = false;
};

struct Play {
  Playbook playbook;
  std::string text;
  Value inputs = Value::object();
  std::vector<PlayHost> hosts;
  RunOptions options;
};

// All errors of playbook, inventory, -e, host patterns and ways to hosts together.
tl::expected<Play, std::vector<Error>> prepare_play(const Session& session, const StepRegistry& registry,
                                                    const PlayOptions& options);

// The playbook and everything that chooses what of it runs where.
void add_play_options(CLI::App& verb, PlayOptions& options);

// Hosts of the play that --limit leaves, in the play's order. Errors (usage) say which pattern means nothing.
Result<std::vector<std::string>> chosen_hosts(const Inventory& inventory, const std::string& pattern,
                                              const InventoryOptions& options);

// A host with its way in, variables and groups.
Result<PlayHost> play_host(const Inventory& inventory, const std::string& host);

}  // namespace millwright
