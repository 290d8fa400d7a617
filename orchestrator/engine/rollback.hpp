// Taking back what a run did to one host: undo in reverse order of completion, ask again, test what runs now.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "orchestrator/engine/step_runner.hpp"

namespace millwright {

struct RollbackReport {
  int undone = 0;
  std::vector<std::string> remaining;  // what is not as before, in words; empty: all is

  bool complete() const { return remaining.empty(); }
};

// Used by the host's worker only. The board must hold the results of the run (or what the journal knew of them): they
// say which containers there are and what the steps' inputs were.
class Rollback {
 public:
  Rollback(RunContext& run, HostSession& host, StepRunner& runner) : run_(run), host_(host), runner_(runner) {}
  RollbackReport run(const std::string& reason);

 private:
  std::vector<UndoRecord> records();
  Result<NodeSession*> reach(const Value& address);
  Result<CommandResult> run_undo(NodeSession& node, const Command& command, const UndoRecord& record);
  void undo(const UndoRecord& record);
  void settle(const UndoRecord& record, UndoState state, const std::string& why);
  std::string changed_later_by(const UndoRecord& record) const;
  void try_again_what_failed();
  void forget_what_went_with_its_container();
  void run_what_comes_after();
  void ask_again();
  std::string put_back_for(std::size_t step);
  void test_again();

  RunContext& run_;
  HostSession& host_;
  StepRunner& runner_;
  RollbackReport report_;
  struct Left {
    UndoRecord record;
    std::string text;
    std::size_t after = 0;  // how many had been undone when it was left
    bool failed = false;    // as opposed to refused, irreversible and out of reach
  };
  std::vector<Left> left_;
  std::vector<UndoRecord> undone_;
  std::vector<UndoRecord> undone_before_;  // by a rollback that may have been killed before its end
};

}  // namespace millwright
