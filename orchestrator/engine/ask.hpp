// Questions of many steps in one round trip.
#pragma once

#include <string>
#include <vector>

#include "orchestrator/engine/node_session.hpp"

namespace millwright {

struct Wanted {
  std::string key;  // Unit::key
  std::vector<Question> questions;
  Become become = Become::no;
};

// Collects commands for one node and sends them at once. Answers go into NodeSession::answers, facts into its facts.
class AskBatch {
 public:
  explicit AskBatch(NodeSession& node) : node_(node) {}

  // Something that is not a question (an action), run in its place in the order. Returns its number.
  std::size_t add(Command command);
  void add(const Wanted& wanted);
  // What the engine itself needs to know, unless it is known.
  void add_facts(Become become);
  bool empty() const { return commands_.empty(); }
  // Errors are those of the way to the node; nothing is kept then.
  Result<void> send();
  const CommandResult& result(std::size_t number) const { return results_.at(number); }

 private:
  struct Asked {
    std::size_t command = 0;
    std::string key;
    std::string question;
  };
  NodeSession& node_;
  std::vector<Command> commands_;
  std::vector<Asked> asked_;
  std::vector<std::string> keys_;  // also steps that ask nothing have (empty) answers
  std::vector<std::pair<std::size_t, Become>> facts_;
  std::vector<CommandResult> results_;
};

}  // namespace millwright
