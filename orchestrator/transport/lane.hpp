// One long-lived /bin/sh at the far end that runs framed scripts, one after the other.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "orchestrator/transport/connection.hpp"
#include "orchestrator/transport/frame.hpp"
#include "orchestrator/transport/launch.hpp"
#include "orchestrator/transport/program.hpp"

namespace millwright {

enum class LaneEnd {
  done,         // all commands have answered; the lane may be used again
  timed_out,    // a script's deadline passed; the lane must be dropped
  interrupted,  // the wakeup was set; the lane must be dropped
  lost,         // the lane's shell or the way to it is gone
};

struct LaneOutcome {
  LaneEnd end = LaneEnd::done;
  std::vector<CommandResult> results;  // the finished ones, in order, and what the unfinished one printed so far
  std::size_t finished = 0;
  std::string script_process;  // of the unfinished script, "" when unknown
  bool anything_begun = false;
  std::string said;  // standard error outside of any frame (a launch that failed)
  std::string lost_reason;
  std::uint64_t sent = 0, received = 0;
};

// Starts the program of `launch` and deals with sudo's prompt. After it, standard input is the program's.
Result<std::unique_ptr<Program>> launch_program(ProgramSource& source, const LaunchSettings& settings, Become become,
                                                const std::string& script, const std::string& where,
                                                SteadyPoint deadline, const Wakeup& wake);

// Used by one thread at a time.
class Lane {
 public:
  Lane(std::unique_ptr<Program> program, Become become);
  // Sends all at once and reads until all have answered. A usage error (bad variable name) leaves the lane as it was.
  Result<LaneOutcome> run(const std::vector<const Command*>& commands, const Wakeup& wake);
  Become become() const { return become_; }
  const std::string& process() const { return process_; }  // id of the lane's shell, known after the first run
  bool used() const { return greeted_; }

 private:
  class Exchange;
  std::unique_ptr<Program> program_;
  Become become_;
  bool greeted_ = false;
  std::string process_;
};

// Kills the script that a dropped lane was running, the lane's shell first; run it in another lane of the same user.
Command kill_command(const std::string& lane_process, const std::string& script_process);

}  // namespace millwright
