// A Connection over any source of programs: local, ssh, and a container within either.
//
// Safe for concurrent use: each call takes a lane of its own (a long-lived shell), at most `max_lanes` at a time, and
// waits for one when all are busy; when the far end refuses another one (sshd's MaxSessions) it makes do with those
// there are.
#pragma once

#include <atomic>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "orchestrator/base/mutex.hpp"
#include "orchestrator/transport/connection.hpp"
#include "orchestrator/transport/lane.hpp"

namespace millwright {

struct LaneSettings {
  std::string name;
  LaunchSettings launch;
  // sshd's default MaxSessions is 10 channels a connection; two are left for uploads and for killing.
  std::size_t max_lanes = 8;
  std::uint64_t small_upload = 256 * 1024;  // up to here a file travels as a script's input: one round trip
};

class LaneConnection final : public Connection {
 public:
  LaneConnection(std::shared_ptr<ProgramSource> source, LaneSettings settings);
  ~LaneConnection() override;
  std::string name() const override { return settings_.name; }
  Result<CommandResult> run(const Command& command) override;
  // One round trip for each stretch of commands with the same `become`.
  Result<std::vector<CommandResult>> run_batch(const std::vector<Command>& commands) override;
  Result<void> upload(const Upload& upload) override;
  Result<std::string> download(const std::string& path, std::uint64_t max_bytes, Become become) override;
  Result<std::unique_ptr<Tunnel>> open_tunnel(const std::string& host, int port) override;
  Result<void> reconnect(Milliseconds deadline) override;
  bool alive() const override { return source_->alive(); }
  TransportStats stats() const override;
  void interrupt() override;

  const std::shared_ptr<ProgramSource>& source() const { return source_; }
  const LaneSettings& settings() const { return settings_; }

 private:
  class Call;  // registers a call, so that interrupt() finds it
  Result<std::vector<CommandResult>> run_stretch(const std::vector<const Command*>& commands, const Wakeup& wake);
  Result<std::unique_ptr<Lane>> take_lane(Become become, SteadyPoint deadline, const Wakeup& wake);
  Result<std::unique_ptr<Lane>> open_lane(Become become, SteadyPoint deadline, const Wakeup& wake);
  void give_back(std::unique_ptr<Lane> lane);
  void drop(std::unique_ptr<Lane> lane);
  void kill_script(const Lane& lane, const std::string& script_process);
  void count(const LaneOutcome& outcome, std::size_t commands);
  Error explain_end(const LaneOutcome& outcome, const std::vector<const Command*>& commands, Become become) const;
  Result<void> upload_small(const Upload& upload, std::string_view content);
  Result<void> upload_stream(const Upload& upload);
  Result<void> check_upload(const Upload& upload, int exit_code, const std::string& said) const;

  const std::shared_ptr<ProgramSource> source_;
  const LaneSettings settings_;
  mutable Mutex mutex_;
  Condition freed_;
  std::vector<std::unique_ptr<Lane>> idle_ MW_GUARDED_BY(mutex_);
  std::size_t open_ MW_GUARDED_BY(mutex_) = 0;  // idle ones and those in use
  std::size_t limit_ MW_GUARDED_BY(mutex_);
  std::uint64_t generation_ MW_GUARDED_BY(mutex_) = 0;  // lanes of an earlier login are not given back
  std::list<const Wakeup*> calls_ MW_GUARDED_BY(mutex_);
  TransportStats stats_ MW_GUARDED_BY(mutex_);
};

class LaneConnection::Call {
 public:
  explicit Call(LaneConnection& connection) : connection_(connection) {
    const Lock lock(connection_.mutex_);
    place_ = connection_.calls_.insert(connection_.calls_.end(), &wake_);
  }
  ~Call() {
    const Lock lock(connection_.mutex_);
    connection_.calls_.erase(place_);
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
  const Wakeup& wake() const { return wake_; }

 private:
  LaneConnection& connection_;
  Wakeup wake_;
  std::list<const Wakeup*>::iterator place_;
};

}  // namespace millwright
