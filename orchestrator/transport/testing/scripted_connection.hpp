// A node that answers by pattern and remembers what was asked of it: the in-memory side of the Connection seam.
//
// Safe for concurrent use.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <regex>
#include <string>
#include <vector>

#include "orchestrator/base/mutex.hpp"
#include "orchestrator/transport/connection.hpp"

namespace millwright {

struct ScriptedAnswer {
  int exit_code = 0;
  std::string out;
  std::string err;
  std::optional<Error> error;  // the way to the node fails instead

  static ScriptedAnswer printing(std::string text) { return {0, std::move(text), {}, {}}; }
  static ScriptedAnswer failing(int code, std::string text) { return {code, {}, std::move(text), {}}; }
  static ScriptedAnswer broken(Error failure) { return {0, {}, {}, std::move(failure)}; }
};

// The answers and the memory of one node. Kept by the test, shared with every connection made to it, so that what was
// asked is still there when the connection is gone.
class ScriptedNode {
 public:
  using Reply = std::function<ScriptedAnswer(const Command&)>;

  // The first rule that fits answers; rules added later come first, so that a test can override. An answer given with
  // `times` is used up after that many uses. A script that no rule fits answers 127 and is listed in `unanswered`.
  ScriptedNode& on(std::string exact_script, ScriptedAnswer answer, int times = kAlways);
  ScriptedNode& on_containing(std::string part, ScriptedAnswer answer, int times = kAlways);
  ScriptedNode& on_match(const std::string& regex, ScriptedAnswer answer, int times = kAlways);  // ECMAScript, search
  ScriptedNode& on_any(ScriptedAnswer answer);
  ScriptedNode& reply(std::function<bool(const Command&)> fits, Reply reply, int times = kAlways);
  ScriptedNode& set_file(const std::string& path, std::string content);
  ScriptedNode& refuse_upload(const std::string& path, Error error);
  ScriptedNode& set_tunnel_port(int port);  // what tunnels of this node answer as their local port
  // Loses the connection when this many more commands have been asked; each further call fails until reconnect.
  ScriptedNode& drop_after(int commands);
  ScriptedNode& refuse_reconnect(Error error);

  std::vector<Command> asked() const;        // in order
  std::vector<std::string> scripts() const;  // of asked()
  std::vector<std::string> unanswered() const;
  std::vector<Upload> uploads() const;  // content copied into `files`
  std::optional<std::string> file(const std::string& path) const;
  std::vector<std::vector<std::string>> batches() const;  // scripts, one entry for each round trip
  int reconnects() const;
  int tunnels() const;

  static constexpr int kAlways = -1;

 private:
  friend class ScriptedConnection;
  struct Rule {
    std::function<bool(const Command&)> fits;
    Reply reply;
    int left = kAlways;
  };
  Result<void> check_line();
  Result<CommandResult> answer(const Command& command);

  mutable Mutex mutex_;
  std::vector<Rule> rules_ MW_GUARDED_BY(mutex_);  // last one first
  std::vector<Command> asked_ MW_GUARDED_BY(mutex_);
  std::vector<std::string> unanswered_ MW_GUARDED_BY(mutex_);
  std::vector<std::vector<std::string>> batches_ MW_GUARDED_BY(mutex_);
  std::vector<Upload> uploads_ MW_GUARDED_BY(mutex_);
  std::map<std::string, std::string> files_ MW_GUARDED_BY(mutex_);
  std::map<std::string, Error> refused_ MW_GUARDED_BY(mutex_);
  std::optional<Error> reconnect_error_ MW_GUARDED_BY(mutex_);
  int drop_after_ MW_GUARDED_BY(mutex_) = kAlways;
  bool dropped_ MW_GUARDED_BY(mutex_) = false;
  int reconnects_ MW_GUARDED_BY(mutex_) = 0;
  int tunnels_ MW_GUARDED_BY(mutex_) = 0;
  int tunnel_port_ MW_GUARDED_BY(mutex_) = 1;
};

class ScriptedConnection final : public Connection {
 public:
  ScriptedConnection(std::string name, std::shared_ptr<ScriptedNode> node)
      : name_(std::move(name)), node_(std::move(node)) {}
  std::string name() const override { return name_; }
  Result<CommandResult> run(const Command& command) override;
  Result<std::vector<CommandResult>> run_batch(const std::vector<Command>& commands) override;
  Result<void> upload(const Upload& upload) override;
  Result<std::string> download(const std::string& path, std::uint64_t max_bytes, Become become) override;
  Result<std::unique_ptr<Tunnel>> open_tunnel(const std::string& host, int port) override;
  Result<void> reconnect(Milliseconds deadline) override;
  bool alive() const override;
  TransportStats stats() const override;
  void interrupt() override {}

 private:
  std::string name_;
  std::shared_ptr<ScriptedNode> node_;
};

// Nodes by name: a host is its Target::name, a container "host/id". Unknown names fail with kind connect.
class ScriptedConnector final : public Connector {
 public:
  // Makes the node on first use.
  ScriptedNode& node(const std::string& name);
  void refuse(const std::string& name, Error error);  // connect and hop fail with this
  std::vector<std::string> connected() const;         // names, in order
  Result<std::unique_ptr<Connection>> connect(const Target& target) override;
  Result<std::unique_ptr<Connection>> hop(Connection& host, const ContainerTarget& target) override;

 private:
  Result<std::unique_ptr<Connection>> make(const std::string& name);
  mutable Mutex mutex_;
  std::map<std::string, std::shared_ptr<ScriptedNode>> nodes_ MW_GUARDED_BY(mutex_);
  std::map<std::string, Error> refused_ MW_GUARDED_BY(mutex_);
  std::vector<std::string> connected_ MW_GUARDED_BY(mutex_);
};

}  // namespace millwright
