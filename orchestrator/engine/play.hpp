// All hosts of a run: batches, forks, the watch on Ctrl-C.
#pragma once

#include <functional>
#include <vector>

#include "orchestrator/engine/host_worker.hpp"

namespace millwright {

// Canary first, then batches, in the order that the strategy says. At least one batch unless there are no hosts. What
// is shuffled is so in the same way for the same run, so that a run that is resumed keeps its order.
std::vector<std::vector<const PlayHost*>> batches_of(const std::vector<PlayHost>& hosts, const StrategyDecl& strategy,
                                                     const std::string& run);

// Runs the whole play; returns what became of each host, in order. Blocks until every worker has ended.
std::vector<HostEnd> play(RunContext& run, const std::vector<PlayHost>& hosts);

// Runs `work` for each host on a thread of its own, while Ctrl-C is watched.
std::vector<HostEnd> for_each_host(RunContext& run, const std::vector<const PlayHost*>& hosts,
                                   const std::function<HostEnd(const PlayHost&)>& work);

}  // namespace millwright
