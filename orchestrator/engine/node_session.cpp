#include "orchestrator/engine/node_session.hpp"

#include <fmt/format.h>

#include "orchestrator/engine/action_script.hpp"
#include "orchestrator/engine/ask.hpp"

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

HostSession::HostSession(RunContext& run, const PlayHost& host) : run_(run), host_(host) {
  base_.name = host.target.name;
  base_.address = {{"host", host.target.name}};
}

HostSession::~HostSession() {
  for (auto& [key, node] : containers_) run_.live.remove(node->connection);
  containers_.clear();
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
  if (const auto it = containers_.find(key); it != containers_.end()) return it->second.get();
  const Value& container = address["container"];
  ContainerTarget target;
  target.backend = container["backend"].get<std::string>();
  target.id = container["id"].is_string() ? container["id"].get<std::string>() : container["id"].dump();
  Result<std::unique_ptr<Connection>> hop = run_.services.connector->hop(*outer.connection, target);
  if (!hop) return fail(wrap(hop.error(), fmt::format("entering container {} of {}", target.id, outer.name)));
  auto node = std::make_unique<NodeSession>();
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

void HostSession::changed() {
  base_.answers.clear();
  for (auto& [key, node] : containers_) node->answers.clear();
}

void HostSession::drop_containers(const std::string& step) {
  std::vector<std::string> gone;
  for (const auto& [key, node] : containers_) {
    if (node->provided_by == step) gone.push_back(key);
  }
  for (const std::string& key : gone) {
    const auto it = containers_.find(key);
    if (it == containers_.end()) continue;
    const std::string provided = it->second->name + "/";
    run_.live.remove(it->second->connection);
    containers_.erase(it);
    for (auto inner = containers_.begin(); inner != containers_.end();) {
      if (inner->second->name.compare(0, provided.size(), provided) != 0) {
        ++inner;
        continue;
      }
      run_.live.remove(inner->second->connection);
      inner = containers_.erase(inner);
    }
  }
}

Result<void> HostSession::reconnect(NodeSession& node, Milliseconds most) {
  const SteadyPoint end = run_.services.clock->steady() + most;
  changed();
  for (auto& [become, facts] : node.facts) facts.boot.clear();
  if (Result<void> up = base_.connection->reconnect(most); !up) return up;
  if (node.connection == base_.connection) return {};
  const auto left = std::chrono::duration_cast<Milliseconds>(end - run_.services.clock->steady());
  return node.connection->reconnect(std::max(left, Milliseconds(1000)));
}

void HostSession::inherit_lock(NodeSession& node, Become become) {
  AskBatch batch(node);
  batch.add_facts(become);
  // Without the facts it is not known where the lock is; the node is out of reach then, which others will say.
  if (batch.send()) node.locked.insert(become);
}

void HostSession::release_locks() {
  const auto release = [&](NodeSession& node) {
    for (Become become : node.locked) {
      Command command;
      command.script = release_lock_script(state_dir(node, become), run_.run());
      command.become = become;
      if (!node.connection->alive()) continue;
      if (const Result<CommandResult> done = node.connection->run(command); !done) {
        run_.recorder.warn(node.name, "", "the lock on the node was not given back: " + done.error().message);
      }
    }
    node.locked.clear();
  };
  for (auto& [key, node] : containers_) release(*node);
  if (connected()) release(base_);
}

Become HostSession::become_of(const StepDecl& decl) const {
  if (decl.become) return *decl.become ? Become::root : Become::no;
  return host_.target.become;
}

std::string HostSession::state_dir(const NodeSession& node, Become become) const {
  if (!run_.options.node_state_dir.empty()) return run_.options.node_state_dir;
  const auto it = node.facts.find(become);
  if (it == node.facts.end() || it->second.user_id == "0") return "/var/lib/millwright";
  return it->second.home + "/.local/state/millwright";
}

}  // namespace millwright
