// A host of the play while it is worked on: its connection, the containers in it, and what its nodes have answered.
//
// The steps of the host that run side by side share it. Safe for concurrent use, but for what says otherwise.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "orchestrator/base/mutex.hpp"
#include "orchestrator/engine/answer_cache.hpp"
#include "orchestrator/engine/run_context.hpp"
#include "orchestrator/engine/turns.hpp"

namespace millwright {

// What the engine itself wants to know of a node, per privilege: asked with the first batch.
struct NodeFacts {
  std::string user_id;
  std::string home;
  bool systemd = false;
  // What it took back by itself when a controller did not return, and no run was told yet: file on the node, sentence.
  std::vector<std::pair<std::string, std::string>> did_by_itself;
};

class NodeSession {
 public:
  explicit NodeSession(AnswerCache& kept) : cache(kept) {}

  // Set before others see the session, constant then.
  std::string name;         // "gpu1", "gpu1/llm"
  Value address;            // {"host": .., "container": {"backend", "id"}, "provided_by": step, "through": outer}
  std::string provided_by;  // the step whose container this is; empty for the host
  Connection* connection = nullptr;
  std::unique_ptr<Connection> owned;
  AnswerCache& cache;

  std::optional<NodeFacts> facts(Become become) const;
  void learn(Become become, NodeFacts facts);
  // By privilege, what the node did by itself and has not been handed out by this before.
  std::map<Become, std::vector<std::pair<std::string, std::string>>> take_told();
  // State folders of it whose lock this run has taken.
  void note_lock(Become become);
  std::set<Become> take_locks();  // forgets them
  // Whether the host knows that this run has records here; see node_pointer.hpp.
  bool pointed_at(Become become) const;
  void note_pointer(Become become);

 private:
  mutable Mutex mutex_;
  std::map<Become, NodeFacts> facts_ MW_GUARDED_BY(mutex_);
  std::set<Become> locked_ MW_GUARDED_BY(mutex_);
  std::set<Become> pointed_at_ MW_GUARDED_BY(mutex_);
};

class HostSession {
 public:
  HostSession(RunContext& run, const PlayHost& host);
  ~HostSession();
  HostSession(const HostSession&) = delete;
  HostSession& operator=(const HostSession&) = delete;

  const PlayHost& host() const { return host_; }
  const std::string& name() const { return host_.target.name; }
  // Connects; says host_connected or host_unreachable. Nothing to do when it is connected. Not for concurrent use.
  Result<void> connect();
  bool connected() const { return base_.connection != nullptr; }
  NodeSession& base() { return base_; }
  AnswerCache& cache() { return cache_; }
  Turns& turns() { return turns_; }
  // Connected, and the line still holds as far as is known.
  bool reachable() const { return connected() && base_.connection->alive(); }

  // The node a step runs on. refused: the step that should provide it has no output "node".
  Result<NodeSession*> node_for(const StepDecl& decl);
  // As node_for, but nothing when the container is not known yet. Opens no connection.
  std::optional<std::string> node_name_for(const StepDecl& decl) const;
  // From an undo record.
  Result<NodeSession*> node_at(const Value& address);

  // The containers of this step may be others now.
  void drop_containers(const std::string& step);
  // As drop_containers, for containers that are about to be taken away: what this run has locked in them is given back
  // first, as long as there is somebody to give it back to.
  void leave_containers(const std::string& step);
  // How many times the line was looked for again; read before a call that may find it broken.
  std::uint64_t line() const;
  // Drops the line of this node (and what runs through it) and finds it again before the deadline. When another step
  // has done so since `seen`, what came of that is the answer.
  Result<void> reconnect(NodeSession& node, Milliseconds most, std::uint64_t seen);
  // An earlier life of this run may have locked this node: it is given back at the end as if it had been taken now.
  void inherit_lock(NodeSession& node, Become become);
  // Warns of what nodes took back by themselves, each once; but for planning, the nodes forget it then. Not for
  // concurrent use.
  void say_what_nodes_did();
  // Gives back what this run has locked on the nodes. Best effort: a node out of reach keeps its lock, which names
  // this run. Not for concurrent use.
  void release_locks();

  Become become_of(const StepDecl& decl) const;
  // Absolute, on the node; its facts must be known.
  std::string state_dir(const NodeSession& node, Become become) const;

 private:
  Result<void> release_lock(NodeSession& node, Become become);
  Result<NodeSession*> open_container(const Value& address, const std::string& provided_by, NodeSession& outer);

  RunContext& run_;
  const PlayHost& host_;
  AnswerCache cache_;
  Turns turns_;
  std::unique_ptr<Connection> connection_;
  NodeSession base_{cache_};
  mutable Mutex containers_mutex_;
  std::map<std::string, std::unique_ptr<NodeSession>> containers_ MW_GUARDED_BY(containers_mutex_);  // by address
  // No longer to be used, but another step may still be at work through one.
  std::vector<std::unique_ptr<NodeSession>> dropped_ MW_GUARDED_BY(containers_mutex_);
  mutable Mutex line_mutex_;
  std::uint64_t line_ MW_GUARDED_BY(line_mutex_) = 0;
  std::optional<Error> line_error_ MW_GUARDED_BY(line_mutex_);  // of the last time
};

// The way to the node is gone, as opposed to a node that answered badly.
bool way_is_lost(const Error& error, const Connection& connection);

}  // namespace millwright
