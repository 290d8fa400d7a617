// Ask, plan, act, ask again: what a converging step is, and what an active step does through its context.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "orchestrator/engine/pipeline.hpp"

namespace millwright {

// missing: only what has no valid answer; all: everything, since an action is about to make the answers old.
enum class Ahead { missing, all };

struct ConvergeRequest {
  NodeSession* node = nullptr;
  const Unit* unit = nullptr;
  std::string key;  // of the answers kept in the node session
  Become become = Become::no;
  SteadyPoint deadline;
  enum class First { kept, ask } first = First::kept;  // may the first plan use answers that others have asked for?
  std::vector<Question> questions;
  std::function<Result<Change>(const Answers&)> plan;
  std::function<Result<Value>(const Answers&, const std::vector<ActionResult>&)> outputs;  // empty: the change's
  std::function<std::vector<Wanted>(Ahead)> ahead;  // what other steps want to know, asked in the same round trip
  // What will be answered after the change, and which units may go along behind it. Empty: it goes alone.
  std::function<std::vector<Expectation>(const Answers&, const Change&)> expect;
  std::function<std::vector<PipeUnit>()> followers;
};

struct Converged {
  bool changed = false;  // planning only: would change
  Change change;         // the first plan
  std::string summary;
  Value outputs = Value::object();
  bool outputs_known = true;
};

// While it lives nothing else runs on the host, if one of the actions must be alone.
class Alone {
 public:
  Alone(const RunContext& run, Turns& turns, const std::vector<Action>& actions);
  ~Alone();
  Alone(const Alone&) = delete;
  Alone& operator=(const Alone&) = delete;
  bool granted() const { return !needed_ || taken_; }  // false: interrupted while waiting

 private:
  Turns& turns_;
  const bool needed_;
  bool taken_ = false;
};

// Safe for concurrent use.
class Converger {
 public:
  // Without pipes each action is waited for.
  Converger(RunContext& run, HostSession& host, Pipes* pipes = nullptr)
      : run_(run), host_(host), pipes_(pipes), actor_(run, host) {}
  // Errors: those of asking and acting; remote_exit when an action failed (detail: the end of what it said);
  // stale when the answers changed under every plan; failed_test never.
  Result<Converged> run(const ConvergeRequest& request);
  Actor& actor() { return actor_; }

 private:
  Result<Answers> ask(const ConvergeRequest& request, ConvergeRequest::First from);
  enum class Acted { all, stale };
  struct Done {
    std::vector<ActionResult> results;
    std::optional<Answers> answers;  // to this step's questions, from behind the last action
  };
  struct Round {  // one plan and what comes of it
    Answers answers;
    Change change;
    std::shared_ptr<Pipe> pipe;  // that its actions travel in
    bool sent_before = false;    // by a step before this one; nothing has been said of it yet
  };
  Result<Round> begin(const ConvergeRequest& request, int plans, const std::optional<Answers>& found);
  Result<Converged> nothing_to_do(const ConvergeRequest& request, Round& round);
  Result<void> send_pipe(const ConvergeRequest& request, Round& round);
  Result<ActEnd> act(const ConvergeRequest& request, Round& round, std::size_t index, const Value& titles);
  Result<ActEnd> piped(const ConvergeRequest& request, Round& round, const ActRequest& act);
  Result<Acted> act_all(const ConvergeRequest& request, Round& round, Done& done);
  Result<Converged> verify(const ConvergeRequest& request, const Change& change, const Done& done);
  void say_planned(const ConvergeRequest& request, const Change& change, const Answers& answers);
  Result<void> approve(const ConvergeRequest& request, const Change& change) const;

  RunContext& run_;
  HostSession& host_;
  Pipes* const pipes_;
  Actor actor_;
};

// The error of an action that ended with a non-zero status.
Error action_error(const Action& action, const Answer& answer);

}  // namespace millwright
