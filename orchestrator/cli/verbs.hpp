// One function a verb; each adds its subcommand and, when it is chosen, sets Session::chosen.
#pragma once

#include "orchestrator/cli/options.hpp"
#include "orchestrator/cli/session.hpp"

namespace millwright {

void add_apply(CLI::App& app, Session& session);
void add_plan(CLI::App& app, Session& session);
void add_resume(CLI::App& app, Session& session);
void add_rollback(CLI::App& app, Session& session);
void add_drift(CLI::App& app, Session& session);
void add_verify(CLI::App& app, Session& session);
void add_runs(CLI::App& app, Session& session);
void add_show(CLI::App& app, Session& session);
void add_evidence(CLI::App& app, Session& session);
void add_lock(CLI::App& app, Session& session);
void add_unlock(CLI::App& app, Session& session);
void add_inventory(CLI::App& app, Session& session);
void add_graph(CLI::App& app, Session& session);
void add_lint(CLI::App& app, Session& session);
void add_schema(CLI::App& app, Session& session);
void add_steps(CLI::App& app, Session& session);
void add_smoke(CLI::App& app, Session& session);
void add_fit(CLI::App& app, Session& session);
void add_doctor(CLI::App& app, Session& session);
void add_facts(CLI::App& app, Session& session);
void add_releases(CLI::App& app, Session& session);
// A release of a server run again, and tested: `releases --to` and `rollback --to`.
struct ReleaseSwitch {
  std::string what;  // HOST/NAME or HOST/CONTAINER/NAME; HOST where there is only one
  int to = 0;
  bool yes = false;
  std::string lock_wait = "0s";
  InventoryOptions inventory;
};
int run_release_again(const Session& session, const ReleaseSwitch& wish);
void add_completion(CLI::App& app, Session& session);
void add_version(CLI::App& app, Session& session);

}  // namespace millwright
