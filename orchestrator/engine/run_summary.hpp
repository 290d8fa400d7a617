// From what became of the hosts to one sentence and one exit code.
#pragma once

#include <vector>

#include "orchestrator/engine/host_worker.hpp"

namespace millwright {

RunSummary summarize_run(const RunContext& run, const std::vector<HostEnd>& ends);

// Why a run ends rolled back: for a failure (exit code 3), or since somebody asked for that (then it is a success).
enum class RolledBack { after_failure, as_asked };

// run_finished, and the end of the run in the journal.
void finish(RunContext& run, RunSummary& summary, SteadyPoint begin, RolledBack why = RolledBack::after_failure);

}  // namespace millwright
