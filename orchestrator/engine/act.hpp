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
  Answers planned_on;           // what it said
  SteadyPoint deadline;
  std::vector<Wanted> after;       // asked in the same round trip, after it
  Value planned = Value::array();  // titles of the whole change: rollback compares what it finds with them
};

struct ActEnd {
  // locked: only of a pipeline, which does not wait for the lock of another run
  enum class Kind { done, failed, stale, locked } kind = Kind::done;
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

  // The parts of `act`, for those who send several actions at once.
  Result<ActionScript> script_of(const ActRequest& request);
  UndoRecord undo_of(const ActRequest& request, const ActionScript& script) const;
  void number(ActionScript& script, const ActRequest& request, std::uint64_t seq) const;  // as the journal numbered it
  Command command_of(const ActRequest& request, const ActionScript& script) const;        // without `live`
  void say_started(const ActRequest& request) const;
  void say_finished(const ActRequest& request, const Result<ActEnd>& end) const;
  // How it ended although its answer did not arrive. `line` is HostSession::line from before it was sent.
  Result<ActionMark> after_loss(const ActRequest& request, const ActionScript& script, const Error& error,
                                std::uint64_t line);
  // Writes down in the journal how it ended.
  Result<ActEnd> conclude(const ActRequest& request, const ActionMark& mark, std::uint64_t seq, ActEnd end);

 private:
  Result<void> upload(const ActRequest& request, const ActionScript& script);
  Result<ActionMark> send(const ActRequest& request, const ActionScript& script, ActEnd& end);
  Result<ActionMark> find_again(const ActRequest& request, const ActionScript& script, std::uint64_t line);
  bool wait_for_lock(const ActRequest& request, const std::string& held, SteadyPoint give_up);

  RunContext& run_;
  HostSession& host_;
};

}  // namespace millwright
