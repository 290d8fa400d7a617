// What the verbs of the engine share. Private to the engine's own sources.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "orchestrator/engine/parameters.hpp"
#include "orchestrator/engine/run_context.hpp"

namespace millwright {

// "20261130-1412-k3f" from the clock and three random characters.
std::string new_run_id(const Clock& clock);
std::string holder_of(const std::string& run);

std::string_view verb_of(const RunOptions& options);
// A new run in the journal; its id.
Result<std::string> new_run(const EngineServices& services, const Playbook& playbook, const std::string& text,
                            const std::string& verb, const RunParameters& parameters);

// run_started, as the first event of every life of a run.
void say_started(RunContext& run, const std::string& verb, const std::vector<PlayHost>& hosts);

// A run of the journal, ready to be worked on again: its playbook parsed from the text it was applied with.
struct KnownRun {
  RunRecord record;
  RunParameters parameters;
  Playbook playbook;
};
Result<std::unique_ptr<KnownRun>> load_run(const EngineServices& services, const std::string& run,
                                           const RunOptions& options);
std::map<std::string, std::map<std::string, StepRecord>> records_of(const std::vector<StepRecord>& steps);

// Fills the board with what the journal knows of the hosts' steps.
void restore_board(RunContext& run, const std::vector<PlayHost>& hosts);

// Takes the given hosts back, in parallel; each ends as rolled_back or rollback_incomplete.
std::vector<struct HostEnd> roll_back_hosts(RunContext& run, const std::vector<PlayHost>& hosts,
                                            const std::string& reason);

}  // namespace millwright
