#include "steps/server/start_log.hpp"

#include <algorithm>
#include <csignal>
#include <cstdlib>

#include "orchestrator/base/text.hpp"

namespace millwright {

namespace {

// std::regex recurses per character; no line of interest is longer.
constexpr std::size_t kLongestLine = 2000;

std::string fill_groups(std::string sentence, const std::smatch& groups) {
  // Alternatives in a pattern leave all but one group empty; {1} means "the one that matched".
  std::string first;
  for (std::size_t i = 1; i < groups.size(); ++i) {
    if (first.empty() && groups[i].matched) first = groups[i].str();
  }
  return replace_all(std::move(sentence), "{1}", first);
}

// The groups that matched, in order.
std::vector<std::string> matched(const std::smatch& groups) {
  std::vector<std::string> out;
  for (std::size_t i = 1; i < groups.size(); ++i) {
    if (groups[i].matched) out.push_back(groups[i].str());
  }
  return out;
}

// "done of total" or percent, 0 to 1.
double share(const std::vector<std::string>& counts) {
  const auto number = [&counts](std::size_t i) { return std::strtod(counts.at(i).c_str(), nullptr); };
  if (counts.empty()) return 0;
  const double whole = counts.size() > 1 ? number(1) : 100;
  return whole > 0 ? std::clamp(number(0) / whole, 0.0, 1.0) : 0;
}

// sysexits of systemd itself (systemd.exec(5), "Process exit codes"): the program never ran.
std::optional<Diagnosis> systemd_failure(int status) {
  switch (status) {
    case 200:
      return Diagnosis{"file_missing", "systemd could not enter the working directory (status 200/CHDIR)", "", 0};
    case 203:
      return Diagnosis{"file_missing", "systemd could not execute the engine's program (status 203/EXEC)", "", 0};
    case 217:
      return Diagnosis{"start_failed", "systemd does not know the server's user (status 217/USER)", "", 0};
    case 226:
      return Diagnosis{"permission_denied",
                       "systemd could not set up the sandbox (status 226/NAMESPACE); a container needs nesting for it",
                       "", 0};
    default:
      return std::nullopt;
  }
}

Diagnosis by_memory(const MemoryKill& memory) {
  Diagnosis out{"oom_killed", "", memory.line, 0};
  switch (memory.cause) {
    case MemoryKill::Cause::own_limit:
      out.sentence = "the kernel killed it: it used more memory than its own limit (memory_max) allows";
      break;
    case MemoryKill::Cause::outer_limit:
      out.sentence = "the kernel killed it: the memory limit of the container or slice that it runs in was reached";
      break;
    case MemoryKill::Cause::host:
      out.sentence = "the kernel killed it because the host ran out of memory";
      break;
    default:
      out.sentence = "the kernel killed it because memory ran out";
  }
  return out;
}

Diagnosis by_signal(int signal, const MemoryKill& memory) {
  switch (signal) {
    case SIGKILL:
      if (memory.cause == MemoryKill::Cause::none)
        return {"start_failed",
                "the process was killed by SIGKILL, but not by the kernel for memory: by itself or by hand", "", 0};
      return {"oom_killed", "the process was killed by SIGKILL, as the kernel does when memory runs out", "", 0};
    case SIGILL:
      return {"illegal_instruction", "the processor does not know an instruction that the engine uses", "", 0};
    case SIGSEGV:
      return {"segfault", "the process ended by a memory access error (SIGSEGV)", "", 0};
    default:
      return {"start_failed", "the process ended by signal " + std::to_string(signal), "", 0};
  }
}

}  // namespace

void StartLog::add(std::string_view text) {
  text_ += text;
  rest_ += text;
  std::size_t begin = 0;
  for (std::size_t end = rest_.find('\n'); end != std::string::npos; end = rest_.find('\n', begin)) {
    line(std::string_view(rest_).substr(begin, end - begin));
    begin = end + 1;
  }
  rest_.erase(0, begin);
}

void StartLog::line(std::string_view text) {
  ++line_number_;
  const std::string one(text.substr(0, kLongestLine));
  if (!trim(one).empty()) last_line_ = one;
  if (std::regex_search(one, profile_.ready)) {
    ready_ = true;
    fraction_ = 1;
  }
  stages(one);
  scan_.line(text, line_number_);
  std::smatch groups;
  for (const LogFact& fact : profile_.facts) {
    if (!std::regex_search(one, groups, fact.match)) continue;
    for (std::size_t i = groups.size(); i-- > 1;) {
      if (groups[i].matched) facts_[fact.name] = groups[i].str();
    }
  }
  for (std::size_t row = 0; row < profile_.failures.size(); ++row) {
    const LogFailure& failure = profile_.failures[row];
    if (found_.count(row) == 0 && std::regex_search(one, groups, failure.match)) {
      found_[row] = {failure.symptom_class, fill_groups(failure.sentence, groups), one, line_number_};
    }
  }
}

// A progress bar is drawn over itself: what counts is behind the last carriage return.
void StartLog::stages(const std::string& line) {
  const std::string text(trim(line));
  const std::string shown = text.substr(text.rfind('\r') + 1);
  std::smatch groups;
  for (const LogStage& stage : profile_.stages) {
    if (std::max(stage.fraction, stage.until) <= fraction_ || !std::regex_search(shown, groups, stage.match)) continue;
    const std::vector<std::string> counts = matched(groups);
    double at = stage.fraction;
    if (stage.until > stage.fraction) at += (stage.until - stage.fraction) * share(counts);
    if (at <= fraction_) continue;
    fraction_ = at;
    stage_ = stage.title;
    for (std::size_t i = 0; i < counts.size(); ++i)
      stage_ = replace_all(stage_, "{" + std::to_string(i + 1) + "}", counts[i]);
  }
}

std::optional<Diagnosis> StartLog::failure() const {
  if (found_.empty()) return std::nullopt;
  return found_.begin()->second;
}

bool UnitState::ended() const {
  return active == "failed" || active == "inactive" || sub == "auto-restart" || restarts > 0;
}

UnitState parse_unit_state(std::string_view text) {
  UnitState out;
  for (const std::string& line : split_lines(text)) {
    const std::size_t equals = line.find('=');
    if (equals == std::string::npos) continue;
    const std::string key = line.substr(0, equals);
    const std::string value = line.substr(equals + 1);
    const int number = std::atoi(value.c_str());
    if (key == "ActiveState") out.active = value;
    if (key == "SubState") out.sub = value;
    if (key == "Result") out.result = value;
    if (key == "ExecMainCode") out.main_code = number;
    if (key == "ExecMainStatus") out.main_status = number;
    if (key == "NRestarts") out.restarts = number;
    if (key == "MainPID") out.main_pid = number;
  }
  return out;
}

MemoryKill memory_kill(std::string_view log, std::string_view kernel, const std::string& unit) {
  MemoryKill out;
  for (const std::string& line : split_lines(kernel)) {
    if (line == "readable" && out.line.empty()) out.cause = MemoryKill::Cause::none;
    const std::size_t task = line.find("task_memcg=");
    if (task == std::string::npos || line.find(unit, task) == std::string::npos) continue;
    const std::size_t limit = line.find("oom_memcg=");
    const bool own = limit != std::string::npos && line.substr(limit, task - limit).find(unit) != std::string::npos;
    out.line = line;
    out.cause = own                                                             ? MemoryKill::Cause::own_limit
                : line.find("constraint=CONSTRAINT_MEMCG") != std::string::npos ? MemoryKill::Cause::outer_limit
                                                                                : MemoryKill::Cause::host;
  }
  if (!out.line.empty()) return out;
  for (const std::string& line : split_lines(log)) {
    const std::size_t at = line.find("limit=");
    if (!starts_with(line, "millwright: memory: kills=") || at == std::string::npos) continue;
    out.line = line;
    // The group's own limit was never reached, so it was another one's, or the host's.
    out.cause = std::atoi(line.c_str() + at + 6) > 0 ? MemoryKill::Cause::own_limit : MemoryKill::Cause::not_known;
  }
  return out;
}

std::optional<Diagnosis> grave_finding(const StartLog& log) {
  for (const LogFinding& finding : log.findings()) {
    if (finding.severity == SignSeverity::fail)
      return Diagnosis{finding.symptom_class, finding.sentence, finding.line, finding.line_number};
  }
  return std::nullopt;
}

Diagnosis diagnose(const UnitState& unit, const StartLog& log, const MemoryKill& memory) {
  if (unit.result == "oom-kill" || !memory.line.empty()) return by_memory(memory);
  if (auto found = log.failure()) return *found;
  if (auto found = grave_finding(log)) return *found;
  if (log.text().find("millwright: no NVIDIA GPU") != std::string::npos) {
    return {"no_gpu_visible", "the node has no NVIDIA GPU, or its driver is not loaded", log.last_line(), log.lines()};
  }
  if (unit.main_code == CLD_EXITED) {
    if (auto found = systemd_failure(unit.main_status)) return *found;
  }
  if (unit.main_code == CLD_KILLED || unit.main_code == CLD_DUMPED) return by_signal(unit.main_status, memory);
  Diagnosis unknown{"start_failed", "the process ended with status " + std::to_string(unit.main_status),
                    log.last_line(), log.lines()};
  if (unit.result == "start-limit-hit" || unit.restarts > 1) {
    unknown.symptom_class = "crash_loop";
    unknown.sentence = "the process ended again and again, last with status " + std::to_string(unit.main_status);
  } else if (unit.main_status == 0) {
    unknown.sentence = "the process ended by itself without saying why (status 0)";
  }
  const std::vector<LogFinding> findings = log.findings();
  if (!findings.empty() && findings.front().severity == SignSeverity::warn)
    unknown.sentence += "; before, its log says: " + findings.front().sentence;
  return unknown;
}

}  // namespace millwright
