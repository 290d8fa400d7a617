// One run per host, as far as this journal's controllers are concerned. The lock on the node itself is node_lock.hpp's.
#pragma once

#include <string>
#include <vector>

#include "orchestrator/engine/engine.hpp"

namespace millwright {

// Holds the journal's locks of some hosts while it lives. Not for concurrent use.
class RunLocks {
 public:
  RunLocks(EngineServices services, std::string holder) : services_(services), holder_(std::move(holder)) {}
  ~RunLocks();
  RunLocks(const RunLocks&) = delete;
  RunLocks& operator=(const RunLocks&) = delete;

  // In the order of names, so that two runs never wait for each other. busy after `options.lock_wait`.
  Result<void> take(const std::vector<PlayHost>& hosts, const RunOptions& options, const InterruptLevel& interrupt);

 private:
  EngineServices services_;
  const std::string holder_;
  std::vector<std::string> held_;
};

}  // namespace millwright
