// A host of the play while it is worked on: its connection, the containers in it, and what its nodes have answered.
//
// Owned by the host's worker and used from its thread only.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "orchestrator/engine/run_context.hpp"

namespace millwright {

// What the engine itself wants to know of a node, per privilege: asked with the first batch.
struct NodeFacts {
  std::string user_id;
  std::string home;
  std::string boot;
  bool systemd = false;
};

struct NodeSession {
  std::string name;         // "gpu1", "gpu1/llm"
  Value address;            // {"host": .., "container": {"backend", "id"}, "provided_by": step, "through": outer}
  std::string provided_by;  // the step whose container this is; empty for the host
  Connection* connection = nullptr;
  std::unique_ptr<Connection> owned;
  std::map<Become, NodeFacts> facts;
  std::map<std::string, Answers> answers;  // by Unit::key; dropped when something on the host changes
  std::set<Become> locked;                 // state folders of it whose lock this run has taken
};

class HostSession {
 public:
  HostSession(RunContext& run, const PlayHost& host);
  ~HostSession();
  HostSession(const HostSession&) = delete;
  HostSession& operator=(const HostSession&) = delete;

  const PlayHost& host() const { return host_; }
  const std::string& name() const { return host_.target.name; }
  // Connects; says host_connected or host_unreachable. Nothing to do when it is connected.
  Result<void> connect();
  bool connected() const { return base_.connection != nullptr; }
  NodeSession& base() { return base_; }
  // Connected, and the line still holds as far as is known.
  bool reachable() const { return connected() && base_.connection->alive(); }

  // The node a step runs on. refused: the step that should provide it has no output "node".
  Result<NodeSession*> node_for(const StepDecl& decl);
  // As node_for, but nothing when the container is not known yet. Opens no connection.
  std::optional<std::string> node_name_for(const StepDecl& decl) const;
  // From an undo record.
  Result<NodeSession*> node_at(const Value& address);

  // Something on the host was changed: all answers are old.
  void changed();
  // The containers of this step may be others now.
  void drop_containers(const std::string& step);
  // Drops the line of this node (and what runs through it) and finds it again before the deadline.
  Result<void> reconnect(NodeSession& node, Milliseconds most);
  // An earlier life of this run may have locked this node: it is given back at the end as if it had been taken now.
  void inherit_lock(NodeSession& node, Become become);
  // Gives back what this run has locked on the nodes. Best effort: a node out of reach keeps its lock, which names
  // this run.
  void release_locks();

  Become become_of(const StepDecl& decl) const;
  // Absolute, on the node; its facts must be known.
  std::string state_dir(const NodeSession& node, Become become) const;

 private:
  Result<NodeSession*> open_container(const Value& address, const std::string& provided_by, NodeSession& outer);

  RunContext& run_;
  const PlayHost& host_;
  std::unique_ptr<Connection> connection_;
  NodeSession base_;
  std::map<std::string, std::unique_ptr<NodeSession>> containers_;  // by address
};

// The way to the node is gone, as opposed to a node that answered badly.
bool way_is_lost(const Error& error, const Connection& connection);

}  // namespace millwright
