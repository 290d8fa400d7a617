// What the log of a starting server says: how far it is, whether it is ready, what went wrong. Pure.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "steps/server/engine_profile.hpp"

namespace millwright {

struct Diagnosis {
  std::string symptom_class;
  std::string sentence;
  std::string line;  // the log line it was read from; empty when it was not the log
  int line_number = 0;
};

class StartLog {
 public:
  // `device`: what the server is meant to run on, "cpu" or "cuda"; empty: not known.
  explicit StartLog(const EngineProfile& profile, std::string device = "")
      : profile_(profile), scan_(profile.signs, std::move(device)) {}

  void add(std::string_view text);  // pieces as they come; whole lines are looked at
  bool ready() const { return ready_; }
  const std::string& stage() const { return stage_; }
  double fraction() const { return fraction_; }
  const std::map<std::string, std::string>& facts() const { return facts_; }
  const std::string& text() const { return text_; }
  int lines() const { return line_number_; }
  std::string last_line() const { return last_line_; }
  // The first row of the profile whose pattern was in the log.
  std::optional<Diagnosis> failure() const;
  // What else it says of the server, the gravest first.
  std::vector<LogFinding> findings() const { return scan_.findings(); }

 private:
  void line(std::string_view text);
  void stages(const std::string& line);

  const EngineProfile& profile_;
  LogScan scan_;
  std::string text_;
  std::string rest_;  // an unfinished line
  bool ready_ = false;
  std::string stage_;
  double fraction_ = 0;
  int line_number_ = 0;
  std::string last_line_;
  std::map<std::string, std::string> facts_;
  std::map<std::size_t, Diagnosis> found_;  // by row
};

// How a unit is, from `systemctl show`.
struct UnitState {
  std::string active;  // active | activating | failed | inactive
  std::string sub;
  std::string result;  // success | exit-code | signal | oom-kill | start-limit-hit ...
  int main_code = 0;   // CLD_EXITED 1, CLD_KILLED 2, CLD_DUMPED 3
  int main_status = 0;
  int restarts = 0;
  int main_pid = 0;

  bool ended() const;  // no longer starting: dead, failed, or about to be started again
};
UnitState parse_unit_state(std::string_view text);

// What the kernel did for lack of memory.
struct MemoryKill {
  enum class Cause { none, not_known, own_limit, outer_limit, host };
  Cause cause = Cause::not_known;
  std::string line;  // it was read from; empty: nothing says anything
};
// `log` has the line of ended_text() if the cgroup counted a kill; `kernel` are the kernel's lines since the start,
// "readable" as their first when its log can be read at all.
MemoryKill memory_kill(std::string_view log, std::string_view kernel, const std::string& unit);

// A finding that fails a start, as what it failed with.
std::optional<Diagnosis> grave_finding(const StartLog& log);

// Why a start ended, from the way the process ended and its log; the more precise of the two wins.
Diagnosis diagnose(const UnitState& unit, const StartLog& log, const MemoryKill& memory = {});

}  // namespace millwright
