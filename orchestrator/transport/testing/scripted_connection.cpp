#include "orchestrator/transport/testing/scripted_connection.hpp"

#include <fstream>
#include <iterator>

namespace millwright {
namespace {

class FixedTunnel final : public Tunnel {
 public:
  explicit FixedTunnel(int port) : port_(port) {}
  int local_port() const override { return port_; }

 private:
  int port_;
};

}  // namespace

ScriptedNode& ScriptedNode::reply(std::function<bool(const Command&)> fits, Reply reply, int times) {
  const Lock lock(mutex_);
  rules_.insert(rules_.begin(), {std::move(fits), std::move(reply), times});
  return *this;
}

ScriptedNode& ScriptedNode::on(std::string exact_script, ScriptedAnswer answer, int times) {
  return reply([text = std::move(exact_script)](const Command& command) { return command.script == text; },
               [answer = std::move(answer)](const Command&) { return answer; }, times);
}

ScriptedNode& ScriptedNode::on_containing(std::string part, ScriptedAnswer answer, int times) {
  return reply(
      [text = std::move(part)](const Command& command) { return command.script.find(text) != std::string::npos; },
      [answer = std::move(answer)](const Command&) { return answer; }, times);
}

ScriptedNode& ScriptedNode::on_match(const std::string& regex, ScriptedAnswer answer, int times) {
  return reply(
      [pattern = std::regex(regex)](const Command& command) { return std::regex_search(command.script, pattern); },
      [answer = std::move(answer)](const Command&) { return answer; }, times);
}

ScriptedNode& ScriptedNode::on_any(ScriptedAnswer answer) {
  return reply([](const Command&) { return true; }, [answer = std::move(answer)](const Command&) { return answer; });
}

ScriptedNode& ScriptedNode::set_file(const std::string& path, std::string content) {
  const Lock lock(mutex_);
  files_[path] = std::move(content);
  return *this;
}

ScriptedNode& ScriptedNode::refuse_upload(const std::string& path, Error error) {
  const Lock lock(mutex_);
  refused_.insert_or_assign(path, std::move(error));
  return *this;
}

ScriptedNode& ScriptedNode::set_tunnel_port(int port) {
  const Lock lock(mutex_);
  tunnel_port_ = port;
  return *this;
}

ScriptedNode& ScriptedNode::drop_after(int commands) {
  const Lock lock(mutex_);
  drop_after_ = commands;
  return *this;
}

ScriptedNode& ScriptedNode::refuse_reconnect(Error error) {
  const Lock lock(mutex_);
  reconnect_error_ = std::move(error);
  return *this;
}

std::vector<Command> ScriptedNode::asked() const {
  const Lock lock(mutex_);
  return asked_;
}

std::vector<std::string> ScriptedNode::scripts() const {
  const Lock lock(mutex_);
  std::vector<std::string> scripts;
  for (const Command& command : asked_) scripts.push_back(command.script);
  return scripts;
}

std::vector<std::string> ScriptedNode::unanswered() const {
  const Lock lock(mutex_);
  return unanswered_;
}

std::vector<Upload> ScriptedNode::uploads() const {
  const Lock lock(mutex_);
  return uploads_;
}

std::optional<std::string> ScriptedNode::file(const std::string& path) const {
  const Lock lock(mutex_);
  const auto found = files_.find(path);
  if (found == files_.end()) return std::nullopt;
  return found->second;
}

std::vector<std::vector<std::string>> ScriptedNode::batches() const {
  const Lock lock(mutex_);
  return batches_;
}

int ScriptedNode::reconnects() const {
  const Lock lock(mutex_);
  return reconnects_;
}

int ScriptedNode::tunnels() const {
  const Lock lock(mutex_);
  return tunnels_;
}

Result<void> ScriptedNode::check_line() {
  const Lock lock(mutex_);
  if (drop_after_ == 0) {
    dropped_ = true;
    drop_after_ = kAlways;
  }
  if (dropped_) return fail(ErrorKind::connect, "the connection was lost");
  if (drop_after_ > 0) --drop_after_;
  return {};
}

Result<CommandResult> ScriptedNode::answer(const Command& command) {
  if (auto line = check_line(); !line) return Failure(line.error());
  Reply reply;
  {
    const Lock lock(mutex_);
    asked_.push_back(command);
    for (Rule& rule : rules_) {
      if (rule.left == 0 || !rule.fits(command)) continue;
      if (rule.left > 0) --rule.left;
      reply = rule.reply;
      break;
    }
    if (!reply) unanswered_.push_back(command.script);
  }
  // Without the lock: a reply may look at, or change, this node.
  const ScriptedAnswer answer =
      reply ? reply(command) : ScriptedAnswer::failing(127, "no scripted answer for: " + command.script);
  if (answer.error) return fail(*answer.error);
  CommandResult result;
  result.exit_code = answer.exit_code;
  result.out = answer.out;
  result.err = answer.err;
  if (command.live && !answer.out.empty()) command.live(OutputStream::out, answer.out);
  if (command.live && !answer.err.empty()) command.live(OutputStream::err, answer.err);
  if (command.done) command.done(result);
  return result;
}

Result<CommandResult> ScriptedConnection::run(const Command& command) {
  {
    const Lock lock(node_->mutex_);
    node_->batches_.push_back({command.script});
  }
  return node_->answer(command);
}

Result<std::vector<CommandResult>> ScriptedConnection::run_batch(const std::vector<Command>& commands) {
  {
    const Lock lock(node_->mutex_);
    std::vector<std::string> scripts;
    for (const Command& command : commands) scripts.push_back(command.script);
    node_->batches_.push_back(std::move(scripts));
  }
  std::vector<CommandResult> results;
  for (const Command& command : commands) {
    auto result = node_->answer(command);
    if (!result) return Failure(result.error());
    results.push_back(std::move(*result));
  }
  return results;
}

Result<void> ScriptedConnection::upload(const Upload& upload) {
  if (auto line = node_->check_line(); !line) return line;
  std::string content(upload.content);
  if (!upload.local_path.empty()) {
    std::ifstream file(upload.local_path, std::ios::binary);
    if (!file) return fail(ErrorKind::io, "cannot read " + upload.local_path);
    content.assign(std::istreambuf_iterator<char>(file), {});
  }
  {
    const Lock lock(node_->mutex_);
    const auto refused = node_->refused_.find(upload.path);
    if (refused != node_->refused_.end()) return fail(refused->second);
    node_->files_[upload.path] = content;
    node_->uploads_.push_back(upload);
    node_->uploads_.back().content = {};  // the caller's bytes may not outlive the call; they are in `files`
  }
  if (upload.progress) upload.progress(content.size(), content.size());
  return {};
}

Result<std::string> ScriptedConnection::download(const std::string& path, std::uint64_t max_bytes, Become) {
  if (auto line = node_->check_line(); !line) return Failure(line.error());
  const auto content = node_->file(path);
  if (!content) return fail(ErrorKind::transfer, "cannot read " + path + " on " + name_ + ": no such file");
  if (content->size() > max_bytes) return fail(ErrorKind::transfer, path + " on " + name_ + " is too large");
  return *content;
}

Result<std::unique_ptr<Tunnel>> ScriptedConnection::open_tunnel(const std::string&, int) {
  if (auto line = node_->check_line(); !line) return Failure(line.error());
  const Lock lock(node_->mutex_);
  ++node_->tunnels_;
  return std::make_unique<FixedTunnel>(node_->tunnel_port_);
}

Result<void> ScriptedConnection::reconnect(Milliseconds) {
  const Lock lock(node_->mutex_);
  ++node_->reconnects_;
  if (node_->reconnect_error_) return fail(*node_->reconnect_error_);
  node_->dropped_ = false;
  return {};
}

bool ScriptedConnection::alive() const {
  const Lock lock(node_->mutex_);
  return !node_->dropped_;
}

TransportStats ScriptedConnection::stats() const {
  const Lock lock(node_->mutex_);
  TransportStats stats;
  stats.round_trips = node_->batches_.size() + node_->uploads_.size();
  stats.commands = node_->asked_.size();
  return stats;
}

ScriptedNode& ScriptedConnector::node(const std::string& name) {
  const Lock lock(mutex_);
  auto& node = nodes_[name];
  if (!node) node = std::make_shared<ScriptedNode>();
  return *node;
}

void ScriptedConnector::refuse(const std::string& name, Error error) {
  const Lock lock(mutex_);
  refused_.insert_or_assign(name, std::move(error));
}

std::vector<std::string> ScriptedConnector::connected() const {
  const Lock lock(mutex_);
  return connected_;
}

Result<std::unique_ptr<Connection>> ScriptedConnector::make(const std::string& name) {
  const Lock lock(mutex_);
  connected_.push_back(name);
  const auto refused = refused_.find(name);
  if (refused != refused_.end()) return fail(refused->second);
  const auto node = nodes_.find(name);
  if (node == nodes_.end()) return fail(ErrorKind::connect, "no scripted node '" + name + "'");
  return std::make_unique<ScriptedConnection>(name, node->second);
}

Result<std::unique_ptr<Connection>> ScriptedConnector::connect(const Target& target) { return make(target.name); }

Result<std::unique_ptr<Connection>> ScriptedConnector::hop(Connection& host, const ContainerTarget& target) {
  return make(host.name() + "/" + target.id);
}

}  // namespace millwright
