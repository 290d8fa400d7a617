// A connection that passes everything on to another one: what watches or counts on the way overrides what it looks at.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "orchestrator/transport/connection.hpp"

namespace millwright::testing {

class PassingConnection : public Connection {
 public:
  std::string name() const override { return inner_->name(); }
  Result<CommandResult> run(const Command& command) override { return inner_->run(command); }
  Result<std::vector<CommandResult>> run_batch(const std::vector<Command>& commands) override {
    return inner_->run_batch(commands);
  }
  Result<void> upload(const Upload& upload) override { return inner_->upload(upload); }
  Result<std::string> download(const std::string& path, std::uint64_t most, Become become) override {
    return inner_->download(path, most, become);
  }
  Result<std::unique_ptr<Tunnel>> open_tunnel(const std::string& host, int port) override {
    return inner_->open_tunnel(host, port);
  }
  Result<void> reconnect(Milliseconds deadline) override { return inner_->reconnect(deadline); }
  bool alive() const override { return inner_->alive(); }
  TransportStats stats() const override { return inner_->stats(); }
  void interrupt() override { inner_->interrupt(); }

 protected:
  explicit PassingConnection(std::unique_ptr<Connection> inner) : inner_(std::move(inner)) {}
  Connection& inner() const { return *inner_; }

 private:
  const std::unique_ptr<Connection> inner_;
};

}  // namespace millwright::testing
