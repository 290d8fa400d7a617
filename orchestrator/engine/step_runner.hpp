// One step on one host: its items, its attempts, its record. Knows nothing of handlers or of other steps' failures.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "orchestrator/engine/active_context.hpp"
#include "orchestrator/engine/converge.hpp"

namespace millwright {

// Safe for concurrent use, but for `replace`, which needs that no step of the host runs.
class StepRunner {
 public:
  StepRunner(RunContext& run, HostSession& host)
      : run_(run), host_(host), pipes_(run, host), converger_(run, host, &pipes_) {}

  // Runs it with its retries; says step_started and step_finished and keeps the record. Does not touch the board.
  // With Along::followers, actions of steps behind it may be sent with its own: the caller must see to it that those
  // of `pipes().steps_left()` get their turn.
  enum class Along { nothing, followers };
  StepResult run(std::size_t step, Along along = Along::nothing);
  Pipes& pipes() { return pipes_; }
  // Says and records a step that does not run.
  StepResult leave_out(std::size_t step, Progress progress, const std::string& why);
  // Before anything is done: what is wrong with the step already, said and recorded as its failure.
  std::optional<StepResult> refuse(std::size_t step);

  // Inputs that a remedy has changed, on top of what the playbook says; null takes them away.
  void replace(std::size_t step, Value inputs);
  Value replaced(std::size_t step) const;

  // Plans one unit on fresh answers without acting. Nothing: it cannot be asked (active, inputs unknown, node gone).
  Result<std::optional<Change>> plan_now(const Unit& unit);
  // Runs an active step outside of the schedule (a test after rollback). No record, no events of its own.
  Result<StepOutcome> run_active(const Unit& unit, const Value& inputs);

 private:
  class Path;
  static constexpr Milliseconds whole_day = std::chrono::hours(24);  // each action has a deadline of its own
  StepResult attempt(std::size_t step, Along along);
  StepResult run_units(const std::vector<Unit>& units, Along along);
  StepResult run_unit(const Unit& unit, Along along);
  StepResult converge(const Unit& unit, const StepKind& kind, NodeSession& node, const Value& inputs, Along along);
  std::vector<PipeUnit> followers(const NodeSession& node, const Unit& first) const;
  StepResult activate(const Unit& unit, const ActiveStep& kind, NodeSession& node, const Value& inputs);
  StepResult preview(const Unit& unit, const ActiveStep& kind, NodeSession& node, const Value& inputs);
  StepResult failed(Error error) const;
  // Planning only: a step that cannot be planned on what the node is now, since earlier steps will have changed it.
  bool waits_for_changes(const Unit& unit, const Error& error);
  bool waits_for_its_container(const Unit& unit, const Error& error) const;
  StepResult known_when_it_runs(const Unit& unit, const std::string& why);
  StepResult taken_as_left(const Unit& unit, const ActiveStep& kind, NodeSession& node, const Value& inputs);
  void say_unknown(const Unit& unit, const std::string& summary);
  void say_seen(const Unit& unit, const std::string& state, const std::string& summary);
  std::vector<Wanted> ahead(const NodeSession& node, const std::string& except, Ahead which) const;
  // The record of an earlier life of the run when this unit had finished in it.
  const StepRecord* finished_before(const Unit& unit) const;
  Value earlier_outputs(const Unit& unit) const;
  SteadyPoint deadline_of(const StepDecl& decl, Milliseconds otherwise) const;
  void keep_first_replaced(const Unit& unit, Value& outputs);
  void say_finished(const StepDecl& decl, const StepResult& result, Milliseconds took);
  void keep_record(std::size_t step, const StepResult& result);
  std::string node_name(const StepDecl& decl) const;

  RunContext& run_;
  HostSession& host_;
  Pipes pipes_;
  Converger converger_;
  std::map<std::size_t, Value> replaced_;
  Mutex mutex_;
  // By unit: what was there before its first attempt.
  std::map<std::string, Value> replaced_first_ MW_GUARDED_BY(mutex_);
  std::set<std::size_t> items_will_change_ MW_GUARDED_BY(mutex_);  // planning only: steps of which an item changes
};

}  // namespace millwright
