// The remedy loop: one change of inputs at a time, until the failed step succeeds or nothing is left to try.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "orchestrator/engine/step_runner.hpp"
#include "orchestrator/journal/remedy_memory.hpp"

namespace millwright {

// Used by the host's worker only; one per host, so that attempts are counted over the whole run.
class RemedyLoop {
 public:
  RemedyLoop(RunContext& run, HostSession& host, StepRunner& runner) : run_(run), host_(host), runner_(runner) {}
  // `failure` is what came of `step`. The last result of it, failed or not; the board has those of the steps before.
  StepResult cure(std::size_t step, StepResult failure, const HandlerDecl& handler, std::size_t declared_by);
  const std::string& cured_by() const { return cured_by_; }

 private:
  // What a step is back at after a change that did not help: its last run says what was tried, not what holds.
  struct Holds {
    Value inputs, outputs;
  };
  struct Choice {
    std::size_t step = 0;
    Remedy remedy;
    Holds held;
    std::string worked_on;  // the host where it has helped before; empty: none
  };
  std::optional<Choice> choose(std::size_t failed_step, const StepResult& failure);
  // The next remedy by the advisor, or a later one of its list that has helped in a case like this one.
  std::optional<Choice> propose(const RemedyQuery& query);
  std::vector<WorkedRemedy> worked_before(const RemedyQuery& query);
  void keep_learned();
  void announce(const Choice& choice, const std::string& symptom, int attempt, int of);
  StepResult rerun(std::size_t from, std::size_t to, std::size_t& failed_at);

  RunContext& run_;
  HostSession& host_;
  StepRunner& runner_;
  std::vector<std::string> tried_;
  std::map<std::size_t, Holds> holds_;
  std::map<std::size_t, int> attempts_;  // by the step whose handler it is
  std::string cured_by_;
  std::vector<WorkedRemedy> in_effect_;  // of the cure that goes on: what was changed and stayed
  bool warned_ = false;                  // that the memory cannot be read
};

// The class that decides what to try: of the verdict or of the error; empty when it has none.
std::string symptom_of(const StepResult& result);

}  // namespace millwright
