// Wraps any connection and breaks it on purpose.
//
// Safe for concurrent use when the wrapped one is.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "orchestrator/base/mutex.hpp"
#include "orchestrator/transport/connection.hpp"

namespace millwright {

// What goes wrong; counts start at 1, unset means never. Kept by the test, which may change it while things run.
struct Faults {
  // The connection is lost instead of this command's answer: the command has run on the node all the same, as it may
  // when a line is cut. Later calls fail until `reconnect`.
  std::optional<int> drop_at_command;
  // Lost when this many bytes of answers have come; the command that crosses the line has run.
  std::optional<std::uint64_t> drop_at_byte;
  // Lost before the node sees this command.
  std::optional<int> drop_before_command;
  std::optional<int> late_command;  // its answer never comes in time: fails with timeout after it has run
  bool refuse_key = false;          // every call and reconnect fails with host_key
  bool disk_full = false;           // uploads fail with transfer
  std::optional<Error> reconnect;   // reconnect fails with this
};

class FaultyConnection final : public Connection {
 public:
  FaultyConnection(std::unique_ptr<Connection> inner, Faults faults)
      : inner_(std::move(inner)), faults_(std::move(faults)) {}
  void set(Faults faults);
  std::string name() const override { return inner_->name(); }
  Result<CommandResult> run(const Command& command) override;
  Result<std::vector<CommandResult>> run_batch(const std::vector<Command>& commands) override;
  Result<void> upload(const Upload& upload) override;
  Result<std::string> download(const std::string& path, std::uint64_t max_bytes, Become become) override;
  Result<std::unique_ptr<Tunnel>> open_tunnel(const std::string& host, int port) override;
  Result<void> reconnect(Milliseconds deadline) override;
  bool alive() const override;
  TransportStats stats() const override { return inner_->stats(); }
  void interrupt() override { inner_->interrupt(); }

 private:
  Result<void> check_line();
  std::unique_ptr<Connection> inner_;
  mutable Mutex mutex_;
  Faults faults_ MW_GUARDED_BY(mutex_);
  int commands_ MW_GUARDED_BY(mutex_) = 0;
  std::uint64_t bytes_ MW_GUARDED_BY(mutex_) = 0;
  bool lost_ MW_GUARDED_BY(mutex_) = false;
};

}  // namespace millwright
