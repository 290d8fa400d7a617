// What a line in a server's log says about the server, from playbooks/knowledge/log_signs.yml: weights that were not
// loaded, a type that fell back, the processor in place of the GPU. Pure; safe from any thread.
#pragma once

#include <optional>
#include <regex>
#include <string>
#include <string_view>
#include <vector>

#include "orchestrator/base/error.hpp"
#include "orchestrator/base/knowledge.hpp"
#include "orchestrator/base/value.hpp"

namespace millwright {

enum class SignSeverity { note, warn, fail };
std::string_view to_string(SignSeverity severity);

struct LogSign {
  std::string id;
  std::vector<std::string> engines;
  std::string symptom_class;
  SignSeverity severity = SignSeverity::note;
  std::string has;  // text without which no line matches; looked for first, as it is much faster
  std::regex match;
  std::string sentence;               // {1} stands for the group that matched
  std::string device;                 // "cuda": says nothing about a server that is meant for the processor
  std::vector<std::string> explains;  // classes of answers that this is the cause of: it takes their place
  std::string example;
};

// The rows for one engine in the order of the data; all rows where `engine` is empty. An error of kind invalid names a
// row whose pattern is none.
Result<std::vector<LogSign>> log_signs(const Knowledge& knowledge, const std::string& engine);

// One row that was met, at its first line.
struct LogFinding {
  std::string id;
  std::string symptom_class;
  SignSeverity severity = SignSeverity::note;
  std::string sentence;
  std::string line;
  int line_number = 0;
  int times = 0;
  std::vector<std::string> explains;
};

// Reads lines one by one. The first row that matches a line has it; a row that is met again is counted.
class LogScan {
 public:
  // `device`: what the server is meant to run on, "cpu" or "cuda"; empty: not known, and rows for one device are passed
  // over. The signs must outlive the scan.
  LogScan(const std::vector<LogSign>& signs, std::string device) : signs_(signs), device_(std::move(device)) {}

  void line(std::string_view text, int number);
  // The gravest first, then as they were met.
  std::vector<LogFinding> findings() const;

 private:
  const std::vector<LogSign>& signs_;
  std::string device_;
  std::vector<LogFinding> found_;
};

std::vector<LogFinding> scan_log(const std::vector<LogSign>& signs, const std::string& device, std::string_view text);

// The gravest finding that is the usual cause of this class of failure; nothing if there is none.
std::optional<LogFinding> explanation(const std::vector<LogFinding>& findings, const std::string& symptom_class);

// "weights_missing: 3 weights of ... (line 12: "...", and 4 more)"
std::string finding_line(const LogFinding& finding);
// A finding as the event of a probe (docs/events.md, probe_finished), named "log".
Value finding_probe(const LogFinding& finding);
// [{id, class, severity, sentence, line, line_number, times}], for outputs and --json.
Value findings_json(const std::vector<LogFinding>& findings);

}  // namespace millwright
