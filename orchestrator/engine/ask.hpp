// Questions of many steps in one round trip.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "orchestrator/engine/node_session.hpp"

namespace millwright {

struct Wanted {
  std::string key;  // Unit::key
  std::vector<Question> questions;
  Become become = Become::no;
};

// Collects commands for one node and sends them at once. Answers also go into the host's cache, facts into the node's.
// Not for concurrent use.
class AskBatch {
 public:
  explicit AskBatch(NodeSession& node) : node_(node) {}

  // Something that is not a question (an action), run in its place in the order. Returns its number.
  std::size_t add(Command command);
  void add(const Wanted& wanted);
  // Questions of which the answers count only when `gate` prints "closed"; `before` stands before each of them.
  void add_unless_through(const std::vector<Wanted>& wanted, Command gate, const std::string& before);
  // What the engine itself needs to know, unless it is known.
  void add_facts(Become become);
  bool empty() const { return commands_.empty(); }
  std::vector<std::string> keys() const { return keys_; }
  // Errors are those of the way to the node; nothing is kept then.
  Result<void> send() { return send(node_.cache.before_asking()); }
  // For questions behind a change: Changing::ticket.
  Result<void> send(const AnswerCache::Ticket& ticket);
  const Answers& answers(const std::string& key) const { return answers_.at(key); }
  const CommandResult& result(std::size_t number) const { return results_.at(number); }

 private:
  struct Asked {
    std::size_t command = 0;
    std::string key;
    std::string question;
    bool gated = false;
  };
  NodeSession& node_;
  void add(const Wanted& wanted, const std::string& before, bool gated);
  // By the number of the command that each goes before.
  std::map<std::size_t, Command> looks() const;
  Result<void> run();

  std::vector<Command> commands_;
  std::vector<Asked> asked_;
  std::map<std::size_t, SharedLook> shared_;  // by command
  std::vector<std::string> keys_;             // also steps that ask nothing have (empty) answers
  std::vector<std::pair<std::size_t, Become>> facts_;
  std::vector<std::string> gated_keys_;
  std::optional<std::size_t> gate_;  // the command that says whether the gated ones count
  std::vector<CommandResult> results_;
  std::map<std::string, Answers> answers_;
};

}  // namespace millwright
