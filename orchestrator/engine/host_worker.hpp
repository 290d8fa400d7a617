// One host through the whole play: steps as they become ready, handlers of failures, the end of it.
#pragma once

#include <map>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "orchestrator/base/mutex.hpp"
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

// Lives on one thread, which owns all of its state; each step that runs has a thread beside it, which hands over what
// came of it and touches nothing else here.
class HostWorker {
 public:
  HostWorker(RunContext& run, const PlayHost& host, ForkLimit& forks);
  HostEnd work();

 private:
  bool refused();
  void leave_out();
  void steps();
  void start(std::size_t step);
  void wait_for_change(std::uint64_t seen);
  std::set<std::size_t> held_back() const;
  void start_sent();
  void take_ended();
  void drain();
  void handle_failures();
  void finish(std::size_t step, StepResult result);
  bool has_handler(std::size_t step, const StepResult& result) const;
  std::size_t handled_by(std::size_t step) const;
  StepResult handle(std::size_t step, StepResult failure);
  void finish_others(Progress progress, const std::string& why);
  HostEnd summarize();

  RunContext& run_;
  ForkLimit& forks_;
  HostSession session_;
  StepRunner runner_;
  RemedyLoop remedies_;
  HostEnd end_;
  struct Running {
    std::thread thread;
    std::string lock;  // its place among the run's semaphores; empty: it takes none
  };
  std::map<std::size_t, Running> running_;
  std::vector<std::pair<std::size_t, StepResult>> failures_;  // with handlers, whose turn has not come yet
  Mutex mutex_;
  std::vector<std::pair<std::size_t, StepResult>> ended_ MW_GUARDED_BY(mutex_);
  bool over_ = false;  // nothing more is to run here
  bool lost_ = false;  // the host cannot be reached
  bool rolled_back_ = false;
};

}  // namespace millwright
