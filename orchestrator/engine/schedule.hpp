// Which step of which host may start now, and what came of those that did.
//
// Safe for concurrent use: one board is shared by the workers of a batch of hosts.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "orchestrator/base/error.hpp"
#include "orchestrator/base/mutex.hpp"
#include "orchestrator/graph/graph.hpp"
#include "orchestrator/playbook/playbook.hpp"

namespace millwright {

// unknown: planning only, and what it would do is known when it runs.
enum class Progress { waiting, running, ok, changed, failed, skipped, unreachable, cancelled, unknown };
std::string_view to_string(Progress progress);
std::optional<Progress> progress_of(std::string_view name);

struct StepResult {
  Progress progress = Progress::waiting;
  bool ignored = false;        // failed, but `ignore_failure` lets what needs it go on
  bool outputs_known = false;  // expressions may read `outputs`
  Value inputs = Value::object();
  Value outputs = Value::object();
  std::string summary;
  std::optional<Error> error;
  std::optional<Verdict> verdict;
};

// What needs the step may run: it went well, or does not matter.
bool lets_go_on(const StepResult& result);

// The order and the edges of the steps, by their position in the playbook. Immutable.
class StepOrder {
 public:
  explicit StepOrder(const Playbook& playbook);  // it has no cycles and no unknown needs (the parser checks)
  const std::vector<std::size_t>& order() const { return graph_.order(); }
  std::optional<std::size_t> position(const std::string& id) const { return graph_.position(id); }
  const std::vector<std::size_t>& needs(std::size_t step) const { return graph_.needs(step); }
  const std::vector<std::size_t>& needs_all(std::size_t step) const { return needs_all_[step]; }
  bool crosses_hosts() const { return crosses_hosts_; }  // what happens on one host may let another go on
  const std::vector<std::size_t>& with_locks() const { return with_locks_; }
  std::vector<std::size_t> ancestors(std::size_t step) const { return graph_.ancestors(step); }
  std::vector<std::size_t> dependents(std::size_t step) const { return graph_.dependents(step); }
  // On any path between the two, both included, in the order of running. `to` alone when there is no path.
  std::vector<std::size_t> between(std::size_t from, std::size_t to) const;

 private:
  StepGraph graph_;
  std::vector<std::vector<std::size_t>> needs_all_;
  std::vector<std::size_t> with_locks_;
  bool crosses_hosts_ = false;
};

class Board {
 public:
  Board(const StepOrder& order, std::size_t steps);

  void add_host(const std::string& host);
  StepResult get(const std::string& host, std::size_t step) const;
  void put(const std::string& host, std::size_t step, StepResult result);

  struct Next {
    enum class Kind { run, cancel, wait, finished } kind = Kind::finished;
    std::size_t step = 0;
  };
  // run and cancel name a step: the caller runs it, or records it as cancelled. wait: something must end first, here or
  // on another host. finished: nothing waits any more. A step in `held_back` does not run now.
  Next next(const std::string& host, const std::set<std::size_t>& held_back = {}) const;
  std::uint64_t changes() const;
  void touch(const std::string& host);  // wakes who waits for this host, as if something had been put
  // Until something was put since `seen` that may matter to the host, at most so long. With many hosts, what one of
  // them puts must not wake all the others.
  void wait(const std::string& host, std::uint64_t seen, Milliseconds most);

 private:
  enum class Readiness { ready, not_yet, never };
  struct Row {
    std::vector<StepResult> results;
    std::uint64_t changed = 0;  // the count of changes when this host's last one came
    Condition moved;
  };
  Readiness readiness(const std::string& host, std::size_t step) const MW_REQUIRES(mutex_);
  void moved(Row& row) MW_REQUIRES(mutex_);

  const StepOrder& order_;
  const std::size_t steps_;
  mutable Mutex mutex_;
  std::uint64_t changes_ MW_GUARDED_BY(mutex_) = 0;
  std::map<std::string, Row> rows_ MW_GUARDED_BY(mutex_);
};

}  // namespace millwright
