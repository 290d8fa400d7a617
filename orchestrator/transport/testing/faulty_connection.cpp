#include "orchestrator/transport/testing/faulty_connection.hpp"

namespace millwright {
namespace {

Failure lost() { return fail(ErrorKind::connect, "the connection was lost (on purpose)"); }

}  // namespace

void FaultyConnection::set(Faults faults) {
  const Lock lock(mutex_);
  faults_ = std::move(faults);
}

Result<void> FaultyConnection::check_line() {
  const Lock lock(mutex_);
  if (faults_.refuse_key)
    return fail(ErrorKind::host_key, "the host key of " + inner_->name() + " has changed (on purpose)");
  if (lost_) return lost();
  return {};
}

Result<CommandResult> FaultyConnection::run(const Command& command) {
  if (auto line = check_line(); !line) return Failure(line.error());
  int number = 0;
  Faults faults;
  {
    const Lock lock(mutex_);
    number = ++commands_;
    faults = faults_;
    if (faults.drop_before_command == number) {
      lost_ = true;
      return lost();
    }
  }
  Command unreported = command;
  unreported.done = nullptr;
  auto result = inner_->run(unreported);
  if (!result) return result;
  {
    const Lock lock(mutex_);
    bytes_ += result->out.size() + result->err.size();
    if (faults.drop_at_command == number || (faults.drop_at_byte && bytes_ >= *faults.drop_at_byte)) {
      lost_ = true;
      return lost();
    }
  }
  if (faults.late_command == number) return fail(ErrorKind::timeout, "the answer did not come in time (on purpose)");
  if (command.done) command.done(*result);
  return result;
}

// One by one, so that a fault can fall between two commands of a batch.
Result<std::vector<CommandResult>> FaultyConnection::run_batch(const std::vector<Command>& commands) {
  std::vector<CommandResult> results;
  for (const Command& command : commands) {
    auto result = run(command);
    if (!result) return Failure(result.error());
    results.push_back(std::move(*result));
  }
  return results;
}

Result<void> FaultyConnection::upload(const Upload& upload) {
  if (auto line = check_line(); !line) return line;
  {
    const Lock lock(mutex_);
    if (faults_.disk_full)
      return fail(ErrorKind::transfer, "the disk is full: cannot write " + upload.path + " (on purpose)");
  }
  return inner_->upload(upload);
}

Result<std::string> FaultyConnection::download(const std::string& path, std::uint64_t max_bytes, Become become) {
  if (auto line = check_line(); !line) return Failure(line.error());
  return inner_->download(path, max_bytes, become);
}

Result<std::unique_ptr<Tunnel>> FaultyConnection::open_tunnel(const std::string& host, int port) {
  if (auto line = check_line(); !line) return Failure(line.error());
  return inner_->open_tunnel(host, port);
}

Result<void> FaultyConnection::reconnect(Milliseconds deadline) {
  {
    const Lock lock(mutex_);
    if (faults_.refuse_key)
      return fail(ErrorKind::host_key, "the host key of " + inner_->name() + " has changed (on purpose)");
    if (faults_.reconnect) return fail(*faults_.reconnect);
    lost_ = false;
  }
  return inner_->reconnect(deadline);
}

bool FaultyConnection::alive() const {
  const Lock lock(mutex_);
  return !lost_ && inner_->alive();
}

}  // namespace millwright
