#include "orchestrator/engine/node_session.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "orchestrator/engine/action_script.hpp"
#include "orchestrator/engine/ask.hpp"
#include "orchestrator/engine/dead_man.hpp"

namespace millwright {

bool way_is_lost(const Error& error, const Connection& connection) {
  switch (error.kind) {
    case ErrorKind::connect:
    case ErrorKind::auth:
    case ErrorKind::host_key:
      return true;
    case ErrorKind::timeout:
    case ErrorKind::transfer:
      return !connection.alive();
    default:
      return false;
  }
}

std::optional<NodeFacts> NodeSession::facts(Become become) const {
  const Lock guard(mutex_);
  const auto it = facts_.find(become);
  return it == facts_.end() ? std::nullopt : std::optional(it->second);
}

void NodeSession::learn(Become become, NodeFacts facts) {
  const Lock guard(mutex_);
  facts_[become] = std::move(facts);
}

std::map<Become, std::vector<std::pair<std::string, std::string>>> NodeSession::take_told() {
  const Lock guard(mutex_);
  std::map<Become, std::vector<std::pair<std::string, std::string>>> out;
  for (auto& [become, facts] : facts_) {
    if (!facts.did_by_itself.empty()) out[become] = std::exchange(facts.did_by_itself, {});
  }
  return out;
}

void NodeSession::note_lock(Become become) {
  const Lock guard(mutex_);
  locked_.insert(become);
}

std::set<Become> NodeSession::take_locks() {
  const Lock guard(mutex_);
  return std::exchange(locked_, {});
}

bool NodeSession::pointed_at(Become become) const {
  const Lock guard(mutex_);
  return pointed_at_.count(become) != 0;
}

void NodeSession::note_pointer(Become become) {
  const Lock guard(mutex_);
  pointed_at_.insert(become);
}

HostSession::HostSession(RunContext& run, const PlayHost& host) : run_(run), host_(host) {
  base_.name = host.target.name;
  base_.address = {{"host", host.target.name}};
}

HostSession::~HostSession() {
  const Lock guard(containers_mutex_);
  for (auto& [key, node] : containers_) run_.live.remove(node->connection);
  for (auto& node : dropped_) run_.live.remove(node->connection);
  containers_.clear();
  dropped_.clear();
  if (connection_) run_.live.remove(connection_.get());
}

Result<void> HostSession::connect() {
  if (connected()) return {};
  const SteadyPoint begin = run_.services.clock->steady();
  Result<std::unique_ptr<Connection>> opened = run_.services.connector->connect(host_.target);
  if (!opened) {
    run_.recorder.emit(EventType::host_unreachable, name(), "", {{"error", error_value(opened.error())}});
    return fail(wrap(opened.error(), "connecting to " + name()));
  }
  connection_ = std::move(*opened);
  base_.connection = connection_.get();
  run_.live.add(connection_.get());
  const auto took = std::chrono::duration_cast<Milliseconds>(run_.services.clock->steady() - begin);
  run_.recorder.emit(EventType::host_connected, name(), "",
                     {{"address", connection_->name()}, {"milliseconds", took.count()}});
  return {};
}

namespace {

std::string container_name(const NodeSession& outer, const Value& container) {
  const Value& id = container["id"];
  return outer.name + "/" + (id.is_string() ? id.get<std::string>() : id.dump());
}

Value container_address(const NodeSession& outer, const Value& container, const std::string& provided_by) {
  Value address = {{"host", outer.address["host"]}, {"container", container}, {"provided_by", provided_by}};
  if (outer.address.contains("container")) address["through"] = outer.address;
  return address;
}

bool names_container(const Value& outputs) {
  return outputs.is_object() && outputs.contains("node") && outputs["node"].is_object() &&
         outputs["node"].contains("backend") && outputs["node"].contains("id");
}

}  // namespace

Result<NodeSession*> HostSession::open_container(const Value& address, const std::string& provided_by,
                                                 NodeSession& outer) {
  const std::string key = address.dump();
  // Held while the hop is made: two steps that want one container get one session.
  const Lock guard(containers_mutex_);
  if (const auto it = containers_.find(key); it != containers_.end()) return it->second.get();
  const Value& container = address["container"];
  ContainerTarget target;
  target.backend = container["backend"].get<std::string>();
  target.id = container["id"].is_string() ? container["id"].get<std::string>() : container["id"].dump();
  Result<std::unique_ptr<Connection>> hop = run_.services.connector->hop(*outer.connection, target);
  if (!hop) return fail(wrap(hop.error(), fmt::format("entering container {} of {}", target.id, outer.name)));
  auto node = std::make_unique<NodeSession>(cache_);
  node->name = container_name(outer, container);
  node->address = address;
  node->provided_by = provided_by;
  node->owned = std::move(*hop);
  node->connection = node->owned.get();
  run_.live.add(node->connection);
  return containers_.emplace(key, std::move(node)).first->second.get();
}

Result<NodeSession*> HostSession::node_for(const StepDecl& decl) {
  if (Result<void> up = connect(); !up) return fail(up.error());
  if (decl.in.empty()) return &base_;
  const auto provider = run_.order.position(decl.in);
  if (!provider) return fail(make_error(ErrorKind::invalid, "no step " + decl.in).at(decl.mark));
  const StepResult result = run_.board.get(name(), *provider);
  if (!names_container(result.outputs)) {
    return fail(make_error(ErrorKind::refused,
                           fmt::format("step {} runs in the node of step {}, which has given none", decl.id, decl.in))
                    .at(decl.mark));
  }
  Result<NodeSession*> outer = node_for(run_.playbook.steps[*provider]);
  if (!outer) return outer;
  return open_container(container_address(**outer, result.outputs["node"], decl.in), decl.in, **outer);
}

std::optional<std::string> HostSession::node_name_for(const StepDecl& decl) const {
  if (decl.in.empty()) return base_.name;
  const auto provider = run_.order.position(decl.in);
  if (!provider) return {};
  const StepResult result = run_.board.get(name(), *provider);
  if (!names_container(result.outputs)) return {};
  const auto outer = node_name_for(run_.playbook.steps[*provider]);
  if (!outer) return {};
  const Value& id = result.outputs["node"]["id"];
  return *outer + "/" + (id.is_string() ? id.get<std::string>() : id.dump());
}

Result<NodeSession*> HostSession::node_at(const Value& address) {
  if (Result<void> up = connect(); !up) return fail(up.error());
  if (!address.is_object() || !address.contains("container")) return &base_;
  Result<NodeSession*> outer = address.contains("through") ? node_at(address["through"]) : Result<NodeSession*>(&base_);
  if (!outer) return outer;
  return open_container(address, address.value("provided_by", std::string()), **outer);
}

void HostSession::drop_containers(const std::string& step) {
  const Lock guard(containers_mutex_);
  std::vector<std::string> gone;
  for (const auto& [key, node] : containers_) {
    if (node->provided_by == step) gone.push_back(node->name);
  }
  const auto within = [](const std::string& name, const std::string& outer) {
    return name == outer || name.compare(0, outer.size() + 1, outer + "/") == 0;
  };
  for (auto it = containers_.begin(); it != containers_.end();) {
    const std::string& name = it->second->name;
    if (std::none_of(gone.begin(), gone.end(), [&](const std::string& outer) { return within(name, outer); })) {
      ++it;
      continue;
    }
    cache_.forget(name);
    dropped_.push_back(std::move(it->second));
    it = containers_.erase(it);
  }
}

std::uint64_t HostSession::line() const {
  const Lock guard(line_mutex_);
  return line_;
}

void HostSession::leave_containers(const std::string& step) {
  {
    const Lock guard(containers_mutex_);
    for (auto& [key, node] : containers_) {
      if (node->provided_by != step) continue;
      // One that does not answer keeps its lock, and both go away.
      for (Become become : node->take_locks()) static_cast<void>(release_lock(*node, become));
    }
  }
  drop_containers(step);
}

Result<void> HostSession::reconnect(NodeSession& node, Milliseconds most, std::uint64_t seen) {
  const SteadyPoint end = run_.services.clock->steady() + most;
  const Lock guard(line_mutex_);
  if (line_ != seen) {
    if (line_error_) return fail(*line_error_);
    return {};
  }
  cache_.changed();
  Result<void> up = base_.connection->reconnect(most);
  if (up && node.connection != base_.connection) {
    const auto left = std::chrono::duration_cast<Milliseconds>(end - run_.services.clock->steady());
    up = node.connection->reconnect(std::max(left, Milliseconds(1000)));
  }
  ++line_;
  line_error_ = up ? std::nullopt : std::optional(up.error());
  return up;
}

void HostSession::inherit_lock(NodeSession& node, Become become) {
  AskBatch batch(node);
  batch.add_facts(become);
  // Without the facts it is not known where the lock is; the node is out of reach then, which others will say.
  if (batch.send()) node.note_lock(become);
}

Result<void> HostSession::release_lock(NodeSession& node, Become become) {
  if (!node.connection->alive()) return {};
  Command command;
  command.script = release_lock_script(state_dir(node, become), run_.run());
  command.become = become;
  const Result<CommandResult> done = node.connection->run(command);
  if (!done) return fail(done.error());
  return {};
}

void HostSession::say_what_nodes_did() {
  const auto say = [&](NodeSession& node) {
    for (const auto& [become, told] : node.take_told()) {
      Command forget;
      forget.become = become;
      for (const auto& [file, text] : told) {
        run_.recorder.warn(node.name, "", "meanwhile " + node.name + " did this: " + text);
        forget.script += forget_told_script(file);
      }
      // When it does not work, the next run is told once more.
      if (run_.options.mode == Mode::apply) static_cast<void>(node.connection->run(forget));
    }
  };
  const Lock guard(containers_mutex_);
  for (auto& [key, node] : containers_) say(*node);
  if (connected()) say(base_);
}

void HostSession::release_locks() {
  const auto release = [&](NodeSession& node) {
    for (Become become : node.take_locks()) {
      if (const Result<void> done = release_lock(node, become); !done) {
        run_.recorder.warn(node.name, "", "the lock on the node was not given back: " + done.error().message);
      }
    }
  };
  const Lock guard(containers_mutex_);
  for (auto& [key, node] : containers_) release(*node);
  if (connected()) release(base_);
}

Become HostSession::become_of(const StepDecl& decl) const {
  if (decl.become) return *decl.become ? Become::root : Become::no;
  return host_.target.become;
}

std::string HostSession::state_dir(const NodeSession& node, Become become) const {
  if (!run_.options.node_state_dir.empty()) return run_.options.node_state_dir;
  const std::optional<NodeFacts> facts = node.facts(become);
  if (!facts || facts->user_id == "0") return "/var/lib/millwright";
  return facts->home + "/.local/state/millwright";
}

}  // namespace millwright
