// One action on a node: recorded in the journal, put down on the node with its undo, guarded, run, marked.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "orchestrator/engine/action_script.hpp"
#include "orchestrator/engine/ask.hpp"
#include "orchestrator/engine/prepare.hpp"

namespace millwright {

struct ActRequest {
  NodeSession* node = nullptr;
  const Unit* unit = nullptr;
  const Action* action = nullptr;
  std::size_t index = 0;  // within its change
  Become become = Become::no;
  std::vector<Question> guard;  // empty: not guarded
  std::string digest;
  SteadyPoint deadline;
  std::vector<Wanted> after;       // asked in the same round trip, after it
  Value planned = Value::array();  // titles of the whole change: rollback compares what it finds with them
};

struct ActEnd {
  enum class Kind { done, failed, stale } kind = Kind::done;
  Answer answer;
  Milliseconds elapsed{0};
  std::optional<Answers> answers;  // of the first of `after`, when it was asked once the action had ended
};

// Safe for concurrent use.
class Actor {
 public:
  Actor(RunContext& run, HostSession& host) : run_(run), host_(host) {}
  // Errors: the way to the node was lost and not found again (the action's end is unknown; it stays pending), the node
  // is locked (busy), it could not be prepared (refused: nothing was changed), interrupted, io (the journal).
  Result<ActEnd> act(const ActRequest& request);
  // Reads how the action ended, waiting for one that still runs, at most until `end`. Also used by resume.
  Result<ActionMark> follow(NodeSession& node, const std::string& remote_dir, Become become, SteadyPoint end);

 private:
  struct Prepared;
  Result<std::uint64_t> record(const ActRequest& request, const std::string& remote_dir);
  Result<void> upload(const ActRequest& request, const ActionScript& script);
  Result<ActionMark> send(const ActRequest& request, const ActionScript& script, ActEnd& end);
  Result<ActionMark> after_loss(const ActRequest& request, const ActionScript& script, const Error& error,
                                std::uint64_t line);
  Result<ActionMark> find_again(const ActRequest& request, const ActionScript& script, std::uint64_t line);
  Result<ActEnd> conclude(const ActRequest& request, const ActionMark& mark, std::uint64_t seq, ActEnd end);
  Result<ActionScript> script_of(const ActRequest& request);
  bool wait_for_lock(const ActRequest& request, const std::string& held, SteadyPoint give_up);

  RunContext& run_;
  HostSession& host_;
};

}  // namespace millwright
