#include "orchestrator/engine/run_locks.hpp"

#include <algorithm>

namespace millwright {

RunLocks::~RunLocks() {
  // A lock that cannot be given back now is taken over once this process is gone.
  for (const std::string& name : held_) static_cast<void>(services_.journal->unlock(name, holder_));
}

Result<void> RunLocks::take(const std::vector<PlayHost>& hosts, const RunOptions& options,
                            const InterruptLevel& interrupt) {
  std::vector<std::string> names;
  for (const PlayHost& host : hosts) names.push_back("node:" + host.target.name);
  std::sort(names.begin(), names.end());
  Clock& clock = *services_.clock;
  const SteadyPoint give_up = clock.steady() + options.lock_wait;
  for (const std::string& name : names) {
    while (true) {
      const Result<void> taken = services_.journal->lock({name, holder_, options.why, clock.now()});
      if (taken) break;
      const bool wait = taken.error().kind == ErrorKind::busy && clock.steady() < give_up && interrupt.load() == 0;
      if (!wait) return taken;
      constexpr Milliseconds pause = std::chrono::milliseconds(500);
      clock.sleep(pause, [&] { return interrupt.load() != 0; });
    }
    held_.push_back(name);
  }
  return {};
}

}  // namespace millwright
