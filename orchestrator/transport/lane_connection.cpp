#include "orchestrator/transport/lane_connection.hpp"

#include <algorithm>

#include "orchestrator/base/text.hpp"
#include "orchestrator/base/units.hpp"
#include "orchestrator/transport/relay_tunnel.hpp"

namespace millwright {
namespace {

constexpr std::size_t kDetail = 4096;
// How long a call that has been interrupted, or whose script ran out of time, may spend on killing it there.
constexpr Milliseconds kKillAllowance = std::chrono::seconds(3);

std::string tail(const std::string& text) { return text.size() <= kDetail ? text : text.substr(text.size() - kDetail); }

bool is_set(const Wakeup& wake) {
  std::vector<pollfd> set{{wake.fd(), POLLIN, 0}};
  return poll_until(set, std::chrono::steady_clock::now()) > 0;
}

}  // namespace

LaneConnection::LaneConnection(std::shared_ptr<ProgramSource> source, LaneSettings settings)
    : source_(std::move(source)), settings_(std::move(settings)), limit_(settings_.max_lanes) {}

LaneConnection::~LaneConnection() = default;

Result<CommandResult> LaneConnection::run(const Command& command) {
  const Call call(*this);
  auto results = run_stretch({&command}, call.wake());
  if (!results) return Failure(results.error());
  return std::move(results->front());
}

Result<std::vector<CommandResult>> LaneConnection::run_batch(const std::vector<Command>& commands) {
  const Call call(*this);
  std::vector<CommandResult> results;
  for (std::size_t begin = 0; begin < commands.size();) {
    std::vector<const Command*> stretch;
    while (begin < commands.size() && (stretch.empty() || commands[begin].become == stretch[0]->become)) {
      stretch.push_back(&commands[begin++]);
    }
    auto part = run_stretch(stretch, call.wake());
    if (!part) return part;
    std::move(part->begin(), part->end(), std::back_inserter(results));
  }
  return results;
}

Result<std::vector<CommandResult>> LaneConnection::run_stretch(const std::vector<const Command*>& commands,
                                                               const Wakeup& wake) {
  const Become become = commands[0]->become;
  while (true) {
    auto lane = take_lane(become, std::chrono::steady_clock::now() + commands[0]->deadline, wake);
    if (!lane) return Failure(lane.error());
    const bool reused = (*lane)->used();
    auto outcome = (*lane)->run(commands, wake);
    if (!outcome) {
      give_back(std::move(*lane));
      return Failure(outcome.error());
    }
    count(*outcome, commands.size());
    if (outcome->end == LaneEnd::done) {
      give_back(std::move(*lane));
      return std::move(outcome->results);
    }
    if (outcome->end == LaneEnd::timed_out || outcome->end == LaneEnd::interrupted) {
      kill_script(**lane, outcome->script_process);
    }
    drop(std::move(*lane));
    // An idle shell may have been killed in the meantime; nothing of ours has begun, so another one can take it.
    const bool stale = outcome->end == LaneEnd::lost && reused && !outcome->anything_begun;
    if (!stale || !source_->alive()) return fail(explain_end(*outcome, commands, become));
  }
}

Result<std::unique_ptr<Lane>> LaneConnection::take_lane(Become become, SteadyPoint deadline, const Wakeup& wake) {
  {
    const Lock lock(mutex_);
    while (true) {
      if (is_set(wake)) return fail(ErrorKind::interrupted, "interrupted");
      const auto fits =
          std::find_if(idle_.begin(), idle_.end(), [&](const auto& lane) { return lane->become() == become; });
      if (fits != idle_.end()) {
        std::unique_ptr<Lane> lane = std::move(*fits);
        idle_.erase(fits);
        return lane;
      }
      if (open_ < limit_) break;
      if (!idle_.empty()) {
        idle_.pop_back();
        --open_;
        continue;
      }
      const auto left = deadline - std::chrono::steady_clock::now();
      if (left <= left.zero()) {
        return fail(make_error(ErrorKind::timeout, "all " + std::to_string(open_) + " shells of " + name() +
                                                       " were busy until the deadline"));
      }
      freed_.wait_for(mutex_, left);
    }
    ++open_;
  }
  auto lane = open_lane(become, deadline, wake);
  if (lane) return lane;
  {
    const Lock lock(mutex_);
    --open_;
    freed_.notify_one();
    if (lane.error().kind != ErrorKind::busy || open_ == 0) return lane;
    limit_ = open_;
  }
  return take_lane(become, deadline, wake);
}

Result<std::unique_ptr<Lane>> LaneConnection::open_lane(Become become, SteadyPoint deadline, const Wakeup& wake) {
  if (!source_->alive()) {
    return fail(make_error(ErrorKind::connect, "the connection to " + name() + " is lost"));
  }
  auto program = launch_program(*source_, settings_.launch, become, "", name(), deadline, wake);
  if (!program) return Failure(program.error());
  {
    const Lock lock(mutex_);
    ++stats_.round_trips;
  }
  return std::make_unique<Lane>(std::move(*program), become);
}

void LaneConnection::give_back(std::unique_ptr<Lane> lane) {
  const Lock lock(mutex_);
  idle_.push_back(std::move(lane));
  freed_.notify_one();
}

void LaneConnection::drop(std::unique_ptr<Lane> lane) {
  lane.reset();
  const Lock lock(mutex_);
  --open_;
  freed_.notify_one();
}

// In a shell of its own beside the pool: all lanes may be busy.
void LaneConnection::kill_script(const Lane& lane, const std::string& script_process) {
  if (lane.process().empty() || script_process.empty() || !source_->alive()) return;
  const Wakeup never;
  const SteadyPoint deadline = std::chrono::steady_clock::now() + kKillAllowance;
  auto program = launch_program(*source_, settings_.launch, lane.become(), "", name(), deadline, never);
  if (!program) return;
  Command command = kill_command(lane.process(), script_process);
  command.deadline = kKillAllowance;
  Lane killer(std::move(*program), lane.become());
  const auto outcome = killer.run({&command}, never);
  if (outcome) count(*outcome, 1);
}

void LaneConnection::count(const LaneOutcome& outcome, std::size_t commands) {
  const Lock lock(mutex_);
  ++stats_.round_trips;
  stats_.commands += commands;
  stats_.bytes_sent += outcome.sent;
  stats_.bytes_received += outcome.received;
}

Error LaneConnection::explain_end(const LaneOutcome& outcome, const std::vector<const Command*>& commands,
                                  Become become) const {
  const std::size_t index = std::min(outcome.finished, commands.size() - 1);
  const std::string which =
      commands.size() == 1 ? ""
                           : " (number " + std::to_string(index + 1) + " of " + std::to_string(commands.size()) + ")";
  const std::string begun = outcome.anything_begun ? " while a command" + which + " ran" : "";
  Error error;
  if (outcome.end == LaneEnd::interrupted) {
    error = make_error(ErrorKind::interrupted, "interrupted on " + name() + begun);
  } else if (outcome.end == LaneEnd::timed_out) {
    error = make_error(ErrorKind::timeout, "a command" + which + " on " + name() + " did not end within " +
                                               format_duration(commands[index]->deadline) + " and was killed")
                .with_hint("its last output is below; raise the step's timeout if it only needs longer");
  } else if (!outcome.anything_begun && source_->alive() && outcome.lost_reason.empty()) {
    return explain_failed_launch(settings_.launch, become, name(), outcome.said);
  } else if (!source_->alive() || !outcome.lost_reason.empty()) {
    error = make_error(ErrorKind::connect, "the connection to " + name() + " was lost" + begun +
                                               (outcome.lost_reason.empty() ? "" : ": " + outcome.lost_reason))
                .with_hint(outcome.anything_begun ? "the command may still be running there" : "");
  } else {
    error = make_error(ErrorKind::connect, "the shell on " + name() + " ended" + begun)
                .with_hint("did the command kill its parent, or did the node run out of memory?");
  }
  const CommandResult& partial = outcome.results[index];
  error.detail = tail(partial.err.empty() ? partial.out : partial.err);
  return error;
}

Result<void> LaneConnection::reconnect(Milliseconds deadline) {
  const Call call(*this);
  const SteadyPoint end = std::chrono::steady_clock::now() + deadline;
  {
    const Lock lock(mutex_);
    open_ -= idle_.size();
    idle_.clear();
    limit_ = settings_.max_lanes;
  }
  if (auto done = source_->reconnect(end); !done) return done;
  auto lane = take_lane(Become::no, end, call.wake());
  if (!lane) return Failure(lane.error());
  Command probe;
  probe.script = ":";
  probe.deadline = std::max(Milliseconds(1), std::chrono::ceil<Milliseconds>(end - std::chrono::steady_clock::now()));
  auto outcome = (*lane)->run({&probe}, call.wake());
  if (outcome && outcome->end == LaneEnd::done) {
    give_back(std::move(*lane));
    return {};
  }
  drop(std::move(*lane));
  return fail(outcome ? explain_end(*outcome, {&probe}, Become::no) : outcome.error());
}

Result<std::unique_ptr<Tunnel>> LaneConnection::open_tunnel(const std::string& host, int port) {
  if (!source_->alive()) return fail(ErrorKind::connect, "the connection to " + name() + " is lost");
  const auto source = source_;
  if (!settings_.launch.container) {
    return make_relay_tunnel(
        [source, host, port](SteadyPoint deadline, const Wakeup&) { return source->dial(host, port, deadline); });
  }
  // The container's loopback is not the host's: a small relay runs inside for each connection.
  return make_relay_tunnel(
      [source, settings = settings_, script = relay_script(host, port)](SteadyPoint deadline, const Wakeup& wake) {
        return launch_program(*source, settings.launch, Become::root, script, settings.name, deadline, wake);
      });
}

TransportStats LaneConnection::stats() const {
  const Lock lock(mutex_);
  return stats_;
}

void LaneConnection::interrupt() {
  source_->interrupt();
  const Lock lock(mutex_);
  for (const Wakeup* wake : calls_) wake->set();
  freed_.notify_all();
}

}  // namespace millwright
