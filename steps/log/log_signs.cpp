#include "steps/log/log_signs.hpp"

#include <algorithm>

#include "orchestrator/base/text.hpp"

namespace millwright {

namespace {

// std::regex recurses per character; no line of interest is longer.
constexpr std::size_t kLongestLine = 2000;
constexpr std::size_t kShownLine = 200;

SignSeverity severity_of(const std::string& word) {
  if (word == "fail") return SignSeverity::fail;
  return word == "warn" ? SignSeverity::warn : SignSeverity::note;
}

Result<LogSign> read_sign(const Value& row) {
  LogSign out;
  out.id = row.at("id");
  out.engines = row.at("engines").get<std::vector<std::string>>();
  out.symptom_class = row.at("class");
  out.severity = severity_of(row.at("severity"));
  out.has = row.at("has");
  out.sentence = row.at("sentence");
  out.device = row.value("device", "");
  out.explains = row.value("explains", std::vector<std::string>{});
  out.example = row.at("example");
  try {
    out.match = std::regex(row.at("match").get<std::string>(), std::regex::ECMAScript | std::regex::optimize);
  } catch (const std::regex_error& error) {
    return fail(make_error(ErrorKind::invalid, "log_signs.yml: " + out.id + ": the pattern '" +
                                                   row.at("match").get<std::string>() +
                                                   "' is no regular expression: " + error.what()));
  }
  return out;
}

// Alternatives in a pattern leave all but one group empty; {1} means "the one that matched".
std::string fill_groups(std::string sentence, const std::smatch& groups) {
  std::string first;
  for (std::size_t i = 1; i < groups.size() && first.empty(); ++i) {
    if (groups[i].matched) first = groups[i].str();
  }
  return replace_all(std::move(sentence), "{1}", first);
}

}  // namespace

std::string_view to_string(SignSeverity severity) {
  switch (severity) {
    case SignSeverity::fail:
      return "fail";
    case SignSeverity::warn:
      return "warn";
    default:
      return "note";
  }
}

Result<std::vector<LogSign>> log_signs(const Knowledge& knowledge, const std::string& engine) {
  std::vector<LogSign> out;
  const Value rows = knowledge.file("log_signs").value("signs", Value::array());
  for (const Value& row : rows) {
    auto sign = read_sign(row);
    if (!sign) return fail(sign.error());
    const bool wanted =
        engine.empty() || std::find(sign->engines.begin(), sign->engines.end(), engine) != sign->engines.end();
    if (wanted) out.push_back(std::move(*sign));
  }
  return out;
}

void LogScan::line(std::string_view text, int number) {
  const std::string_view head = text.substr(0, kLongestLine);
  std::string one;
  std::smatch groups;
  for (const LogSign& sign : signs_) {
    if (!sign.device.empty() && sign.device != device_) continue;
    if (head.find(sign.has) == std::string_view::npos) continue;
    if (one.empty()) one = std::string(trim(head));
    if (!std::regex_search(one, groups, sign.match)) continue;
    const auto known =
        std::find_if(found_.begin(), found_.end(), [&](const LogFinding& finding) { return finding.id == sign.id; });
    if (known != found_.end()) {
      ++known->times;
    } else {
      found_.push_back({sign.id, sign.symptom_class, sign.severity, fill_groups(sign.sentence, groups),
                        one.substr(0, kShownLine), number, 1, sign.explains});
    }
    return;
  }
}

std::vector<LogFinding> LogScan::findings() const {
  std::vector<LogFinding> out = found_;
  std::stable_sort(out.begin(), out.end(),
                   [](const LogFinding& a, const LogFinding& b) { return a.severity > b.severity; });
  return out;
}

std::vector<LogFinding> scan_log(const std::vector<LogSign>& signs, const std::string& device, std::string_view text) {
  LogScan scan(signs, device);
  int number = 0;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    scan.line(text.substr(0, end), ++number);
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  return scan.findings();
}

std::optional<LogFinding> explanation(const std::vector<LogFinding>& findings, const std::string& symptom_class) {
  for (const LogFinding& finding : findings) {
    const auto& explains = finding.explains;
    if (std::find(explains.begin(), explains.end(), symptom_class) != explains.end()) return finding;
  }
  return std::nullopt;
}

std::string finding_line(const LogFinding& finding) {
  std::string out = finding.symptom_class + ": " + finding.sentence;
  if (finding.line_number > 0) {
    out += " (log line " + std::to_string(finding.line_number) + ": \"" + finding.line + "\"";
    if (finding.times > 1) out += ", " + std::to_string(finding.times) + " times";
    out += ")";
  }
  return out;
}

Value finding_probe(const LogFinding& finding) {
  return {{"name", "log"},
          {"verdict", finding.severity == SignSeverity::fail   ? "fail"
                      : finding.severity == SignSeverity::warn ? "degraded"
                                                               : "pass"},
          {"class", finding.symptom_class},
          {"summary", finding_line(finding)},
          {"seconds", 0.0},
          {"tokens", nullptr},
          {"expected", nullptr},
          {"got", finding.line},
          {"evidence", nullptr}};
}

Value findings_json(const std::vector<LogFinding>& findings) {
  Value out = Value::array();
  for (const LogFinding& finding : findings) {
    out.push_back({{"id", finding.id},
                   {"class", finding.symptom_class},
                   {"severity", to_string(finding.severity)},
                   {"sentence", finding.sentence},
                   {"line", finding.line},
                   {"line_number", finding.line_number},
                   {"times", finding.times}});
  }
  return out;
}

}  // namespace millwright
