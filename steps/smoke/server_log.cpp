#include "steps/smoke/server_log.hpp"

#include <algorithm>

#include "orchestrator/base/shell.hpp"
#include "orchestrator/base/text.hpp"

namespace millwright {
namespace {

// A start says what it has to say at its beginning; a fault of a running server is at the end.
constexpr int kHeadBytes = 262144;
constexpr int kTailBytes = 131072;
constexpr std::string_view kDivider = "----\n";

// "http://127.0.0.1:8080" of "http://127.0.0.1:8080/v1".
std::string origin_of(const std::string& endpoint) {
  const std::size_t host = endpoint.find("://");
  const std::size_t path = host == std::string::npos ? std::string::npos : endpoint.find('/', host + 3);
  return endpoint.substr(0, path);
}

std::vector<LogSign> signs_of(const std::vector<LogSign>& signs, const std::string& engine) {
  std::vector<LogSign> out;
  for (const LogSign& sign : signs) {
    if (std::find(sign.engines.begin(), sign.engines.end(), engine) != sign.engines.end()) out.push_back(sign);
  }
  return out;
}

}  // namespace

std::string server_log_script(const std::string& endpoint) {
  return "for d in /var/lib/millwright/servers/*/current; do\n  case \"$(cat \"$d/health\" 2>/dev/null)\" in " +
         shell_quote(origin_of(endpoint) + "/") +
         "*) ;; *) continue ;; esac\n"
         "  unit=millwright-$(basename \"$(dirname \"$d\")\").service\n"
         "  tr -d '\\n' <\"$d/release.json\" 2>/dev/null || continue\n  echo\n"
         "  for g in /dev/nvidia[0-9]*; do if [ -c \"$g\" ]; then echo gpus; break; fi; done\n  echo ----\n"
         "  id=$(systemctl show -p InvocationID --value \"$unit\" 2>/dev/null) || id=\n"
         "  [ -n \"$id\" ] || break\n"
         "  journalctl -q _SYSTEMD_INVOCATION_ID=\"$id\" -o cat --no-pager 2>/dev/null |\n    { head -c " +
         std::to_string(kHeadBytes) + "; tail -c " + std::to_string(kTailBytes) + "; }\n  break\ndone\n";
}

std::optional<LogLook> read_server_log(const std::vector<LogSign>& signs, const std::string& printed) {
  const std::size_t divider = printed.find(kDivider);
  if (divider == std::string::npos) return std::nullopt;
  const std::vector<std::string> head = split_lines(printed.substr(0, divider));
  const Value record = Value::parse(head.empty() ? "" : head.front(), nullptr, false);
  if (!record.is_object()) return std::nullopt;
  LogLook look;
  look.text = printed.substr(divider + kDivider.size());
  // A journal that this user may not read is no log that says nothing.
  if (trim(look.text).empty()) return std::nullopt;
  const bool gpus = std::find(head.begin(), head.end(), "gpus") != head.end();
  const Value device = record.value("device", Value());
  const Value engine = record.value("engine", Value());
  std::string meant_for = device.is_string() ? device.get<std::string>() : "auto";
  if (meant_for == "auto") meant_for = gpus ? "cuda" : "cpu";
  look.findings = scan_log(signs_of(signs, engine.is_string() ? engine.get<std::string>() : ""), meant_for, look.text);
  return look;
}

ProbeReport log_probe(const LogLook& look, const std::string& evidence) {
  ProbeReport out;
  out.name = "server_log";
  out.title = "server log";
  out.verdict = ProbeVerdict::pass;
  out.summary = "nothing that is known to go with bad answers";
  for (const LogFinding& finding : look.findings) {
    if (finding.severity == SignSeverity::note) {
      out.notes.push_back(finding_line(finding));
      continue;
    }
    if (out.verdict != ProbeVerdict::pass) {
      out.notes.push_back(finding_line(finding));
      continue;
    }
    out.verdict = finding.severity == SignSeverity::fail ? ProbeVerdict::fail : ProbeVerdict::degraded;
    out.symptom_class = finding.symptom_class;
    out.summary = finding.sentence;
    Exchange line;
    line.got = finding.line;
    line.symptom_class = finding.symptom_class;
    line.evidence = evidence;
    out.exchanges.push_back(std::move(line));
  }
  return out;
}

void apply_log(SmokeReport& report, const LogLook& look, const SmokeRules& rules) {
  if (look.findings.empty()) return;
  const LogFinding& gravest = look.findings.front();
  const auto cause =
      report.verdict == VerdictKind::fail ? explanation(look.findings, report.symptom_class) : std::nullopt;
  const SymptomClass* known = cause ? rules.classes.find(cause->symptom_class) : nullptr;
  if (known != nullptr && cause->symptom_class != report.symptom_class) {
    report.sentence = known->sentence + " Seen as " + report.symptom_class + ": " + report.sentence;
    report.symptom_class = known->name;
    report.first_remedy = known->first;
  }
  if (cause) {
    report.sentence += " Its log: " + cause->sentence + ".";
  } else if (gravest.severity != SignSeverity::note) {
    report.sentence += " Its log: " + gravest.sentence + ".";
  }
}

}  // namespace millwright
