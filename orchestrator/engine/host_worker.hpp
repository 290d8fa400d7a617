// One host through the whole play: steps as they become ready, handlers of failures, the end of it.
#pragma once

#include <string>
#include <vector>

#include "orchestrator/engine/engine.hpp"
#include "orchestrator/engine/fork_limit.hpp"
#include "orchestrator/engine/remedy.hpp"
#include "orchestrator/engine/rollback.hpp"

namespace millwright {

struct HostEnd {
  HostSummary summary;
  std::vector<std::string> remaining;
  std::string cured_by;
  std::optional<Error> first_error;
  bool inconclusive = false;
  bool locked = false;
  bool stale = false;
};

// Lives on one thread.
class HostWorker {
 public:
  HostWorker(RunContext& run, const PlayHost& host, ForkLimit& forks);
  HostEnd work();

 private:
  void leave_out();
  void settle_pending();
  void steps();
  void one_step(std::size_t step);
  StepResult handle(std::size_t step, StepResult failure);
  void finish_others(Progress progress, const std::string& why);
  HostEnd summarize();

  RunContext& run_;
  ForkLimit& forks_;
  HostSession session_;
  StepRunner runner_;
  RemedyLoop remedies_;
  HostEnd end_;
  bool over_ = false;  // nothing more is to run here
  bool rolled_back_ = false;
};

}  // namespace millwright
