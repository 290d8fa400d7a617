// From what became of the hosts to one sentence and one exit code.
#pragma once

#include <vector>

#include "orchestrator/engine/host_worker.hpp"

namespace millwright {

RunSummary summarize_run(const RunContext& run, const std::vector<HostEnd>& ends);

// run_finished, and the end of the run in the journal.
void finish(RunContext& run, RunSummary& summary, SteadyPoint begin);

}  // namespace millwright
