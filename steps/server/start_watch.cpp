#include "steps/server/start_watch.hpp"

#include <algorithm>

#include "orchestrator/base/shell.hpp"
#include "orchestrator/base/text.hpp"
#include "orchestrator/base/units.hpp"
#include "steps/server/unit_file.hpp"

namespace millwright {

namespace {

constexpr std::string_view kCursorLine = "-- cursor: ";
constexpr Milliseconds kPollEvery{500};
// A server that answers but whose ready line never came (another version's wording) counts as ready after this.
constexpr Milliseconds kReadyLineGrace{5000};
constexpr double kFirstTokenFraction = 0.95;
constexpr std::size_t kShownBody = 200;

// Splits journalctl's output from its last line, "-- cursor: s=...".
std::string take_cursor(std::string& text) {
  const std::size_t at = text.rfind(kCursorLine);
  if (at == std::string::npos || (at != 0 && text[at - 1] != '\n')) return {};
  const std::string cursor(trim(std::string_view(text).substr(at + kCursorLine.size())));
  text.erase(at);
  return cursor;
}

std::string poll_script(const ServerSpec& spec, const std::string& cursor) {
  const std::string unit = shell_quote(spec.unit());
  const std::string after = cursor.empty() ? "-n 5000" : "--after-cursor=" + shell_quote(cursor);
  return process_functions(spec) +
         "systemctl show -p ActiveState,SubState,Result,ExecMainCode,ExecMainStatus,NRestarts,MainPID " + unit +
         "\npages=0\nfor pid in $(server_pids); do\n"
         "  one=$(cut -d ' ' -f 2 \"/proc/$pid/statm\" 2>/dev/null) || one=0\n  pages=$((pages + ${one:-0}))\ndone\n"
         "echo \"load $((pages / 256))\"\necho ----\n"
         "journalctl -q -u " +
         unit + " -o cat --no-pager --show-cursor " + after + "\n";
}

// What the kernel has said about memory since the start, if its log can be read here (not in most containers).
std::string kernel_script(const std::string& cursor) {
  const std::string after = cursor.empty() ? "-n 1000" : "--after-cursor=" + shell_quote(cursor);
  return "[ -z \"$(journalctl -k -q -o cat --no-pager -n 1 2>/dev/null)\" ] || echo readable\n"
         "journalctl -k -q -o cat --no-pager " +
         after + " 2>/dev/null | grep 'oom-kill:' | tail -n 5 || :\n";
}

}  // namespace

Result<std::string> journal_cursor(StepNode& node) {
  NodeCommand command;
  command.script = "journalctl -q -n 0 --show-cursor --no-pager\n";
  auto answer = node.run(command);
  if (!answer) return fail(answer.error());
  if (!answer->ok()) {
    return fail(make_error(ErrorKind::refused, "the node's journal cannot be read: " + std::string(trim(answer->err)))
                    .with_hint("a server runs as a systemd unit and its log is followed in the journal"));
  }
  std::string text = answer->out;
  return take_cursor(text);
}

Result<std::string> ask_models(StepContext& context, NodeTunnel& tunnel, const ServerSpec& spec) {
  HttpRequest request;
  request.url = tunnel.base_url() + "/v1/models";
  request.connect_timeout = Milliseconds(3000);
  request.total_timeout = Milliseconds(10000);
  if (!spec.api_key.empty()) request.headers["Authorization"] = "Bearer " + spec.api_key;
  auto response = context.http().send(request);
  if (!response) return fail(response.error());
  if (response->status != 200) {
    return fail(ErrorKind::failed_test, "/v1/models answers with status " + std::to_string(response->status));
  }
  const Value body = Value::parse(response->body, nullptr, false);
  if (!body.is_object() || !body.contains("data") || !body.at("data").is_array() || body.at("data").empty()) {
    return fail(ErrorKind::failed_test, "/v1/models answers without naming a model");
  }
  const Value& first = body.at("data").at(0);
  return first.is_object() && first.contains("id") && first.at("id").is_string() ? first.at("id").get<std::string>()
                                                                                 : "";
}

StartWatch::StartWatch(StepContext& context, const ServerSpec& spec, const EngineProfile& profile, std::string cursor,
                       std::string device)
    : context_(context),
      spec_(spec),
      log_(profile, std::move(device)),
      start_cursor_(cursor),
      cursor_(std::move(cursor)),
      started_(context.clock().steady()),
      moved_(started_) {}

Result<UnitState> StartWatch::poll() {
  NodeCommand command;
  command.script = poll_script(spec_, cursor_);
  auto answer = context_.node().run(command);
  if (!answer && answer.error().kind != ErrorKind::timeout) return fail(answer.error());
  const std::size_t split_at = answer ? answer->out.find("----\n") : std::string::npos;
  if (split_at == std::string::npos) {
    // A host that runs out of memory keeps even systemd from answering in time: the deadline decides.
    unanswered_ = answer ? std::string(trim(answer->err)) : answer.error().message;
    if (!last_) last_ = UnitState{};
    return *last_;
  }
  unanswered_.clear();
  const std::string head = answer->out.substr(0, split_at);
  std::string text = answer->out.substr(split_at + 5);
  if (const std::string next = take_cursor(text); !next.empty()) cursor_ = next;
  const std::size_t load_at = head.find("load ");
  const std::string load = load_at == std::string::npos ? "" : head.substr(load_at);
  if (!text.empty() || load != load_) moved_ = context_.clock().steady();
  load_ = load;
  if (!text.empty()) {
    context_.output(Stream::out, text);
    log_.add(text);
  }
  last_ = parse_unit_state(head);
  return *last_;
}

Result<bool> StartWatch::answers() {
  if (!tunnel_) {
    auto opened = context_.node().tunnel(spec_.probe_host(), spec_.port);
    if (!opened) return fail(opened.error());
    tunnel_ = std::move(*opened);
  }
  auto name = ask_models(context_, *tunnel_, spec_);
  // Not ready yet looks like an error here; the deadline decides, not a single answer.
  if (!name) return false;
  served_name_ = *name;
  return true;
}

void StartWatch::report_progress() {
  const std::string stage = log_.stage().empty() ? "waiting for the engine's first line" : log_.stage();
  if (stage == shown_) return;
  shown_ = stage;
  context_.progress(stage, log_.fraction());
}

// Those that are more than a note are told as a test of their own, so that the report shows them beside the answers.
void StartWatch::report_findings() {
  for (const LogFinding& finding : log_.findings()) {
    if (!told_.insert(finding.id).second) continue;
    context_.progress("log: " + finding.sentence);
    if (finding.severity != SignSeverity::note) context_.probe_finished(finding_probe(finding));
  }
}

// A token, not a good one: what it says is the test's matter, not the start's.
Result<bool> StartWatch::generates() {
  context_.progress("waiting for a first token", std::max(log_.fraction(), kFirstTokenFraction));
  auto response = ask_token("/v1/completions", {{"prompt", "Hello"}});
  if (response && (response->status == 404 || response->status == 405))
    response = ask_token("/v1/chat/completions", {{"messages", {{{"role", "user"}, {"content", "Hello"}}}}});
  if (lost_) return fail(*lost_);
  if (last_ && last_->ended()) return fail(ended());
  if (context_.cancelled()) return fail(ErrorKind::interrupted, "stopped while " + spec_.name + " was starting");
  if (auto wrong = stuck()) return fail(failed(*wrong));
  // Not there yet, or still loading: the deadline decides.
  if (!response || !response->complete || response->status == 503) return false;
  if (response->status < 500) return true;
  if (auto last = poll(); !last) return fail(last.error());
  return fail(failed({"first_request_500",
                      "it is up, but its first answer is status " + std::to_string(response->status) + ": " +
                          std::string(trim(response->body)).substr(0, kShownBody),
                      "", 0}));
}

Result<HttpResponse> StartWatch::ask_token(const std::string& path, const Value& body) {
  Value whole = {{"model", served_name_}, {"max_tokens", 1}, {"temperature", 0}};
  whole.update(body);
  HttpRequest request;
  request.method = "POST";
  request.url = tunnel_->base_url() + path;
  request.headers["Content-Type"] = "application/json";
  if (!spec_.api_key.empty()) request.headers["Authorization"] = "Bearer " + spec_.api_key;
  request.body = whole.dump();
  request.total_timeout = spec_.ready_timeout;
  request.cancelled = [this] {
    if (context_.cancelled()) return true;
    auto unit = poll();
    if (!unit) lost_ = unit.error();
    return lost_.has_value() || unit->ended() || stuck().has_value();
  };
  return context_.http().send(request);
}

std::optional<Diagnosis> StartWatch::stuck() {
  const SteadyPoint now = context_.clock().steady();
  Diagnosis out{answered_ ? "hang" : "start_timeout", "", log_.last_line(), log_.lines()};
  const std::string doing = answered_              ? " while a first token was waited for"
                            : log_.stage().empty() ? ""
                                                   : " while " + log_.stage();
  if (now - moved_ > spec_.stall_timeout) {
    out.sentence = "nothing moved for " + format_duration(spec_.stall_timeout) + doing;
  } else if (now - started_ > spec_.ready_timeout || now > context_.deadline()) {
    const auto since = std::chrono::duration_cast<Milliseconds>(now - started_);
    out.sentence = "it was not ready after " + format_duration(since) + doing;
  } else {
    return std::nullopt;
  }
  if (!unanswered_.empty()) out.sentence += "; the node says of its unit: " + unanswered_;
  return out;
}

// The last lines may come a moment after systemd has noticed the end.
Error StartWatch::ended() {
  const UnitState unit = *last_;
  context_.clock().sleep(kPollEvery, [this] { return context_.cancelled(); });
  if (auto again = poll(); !again) return again.error();
  NodeCommand command;
  command.script = kernel_script(start_cursor_);
  auto kernel = context_.node().run(command);
  if (!kernel) return kernel.error();
  kill_ = memory_kill(log_.text(), kernel->out, spec_.unit());
  return failed(diagnose(unit, log_, kill_));
}

Error StartWatch::failed(Diagnosis diagnosis) {
  if (diagnosis.symptom_class == "port_taken") {
    NodeCommand command;
    command.script = port_holder_script(spec_);
    auto holder = context_.node().run(command);
    if (holder && !trim(holder->out).empty())
      diagnosis.sentence += ": port " + std::to_string(spec_.port) + " by " + split_lines(holder->out).front();
  }
  if (const auto cause = explanation(log_.findings(), diagnosis.symptom_class)) {
    diagnosis.symptom_class = cause->symptom_class;
    diagnosis.sentence += "; its log says why: " + cause->sentence;
    diagnosis.line = cause->line;
    diagnosis.line_number = cause->line_number;
  }
  const std::string kept = context_.keep("server-" + spec_.name + "-start.log", log_.text());
  std::string message = spec_.engine + " " + spec_.version + " did not start: " + diagnosis.sentence;
  if (!diagnosis.line.empty()) {
    message += diagnosis.line_number > 0 ? " (log line " + std::to_string(diagnosis.line_number) + ": \"" : " (\"";
    message += diagnosis.line.substr(0, 160) + "\")";
  }
  Error error = make_error(ErrorKind::failed_test, std::move(message));
  error.symptom_class = diagnosis.symptom_class;
  error.hint = "its log is kept as " + kept;
  return error;
}

Result<Readiness> StartWatch::run() {
  while (true) {
    if (context_.cancelled()) return fail(ErrorKind::interrupted, "stopped while " + spec_.name + " was starting");
    auto unit = poll();
    if (!unit) return fail(unit.error());
    report_progress();
    report_findings();
    if (unit->ended()) return fail(ended());
    if (auto grave = grave_finding(log_)) return fail(failed(log_.failure().value_or(*grave)));
    if (log_.ready() || log_.lines() > 0) {
      auto up = answers();
      if (!up) return fail(up.error());
      const SteadyPoint now = context_.clock().steady();
      if (*up && !answered_) answered_ = now;
      if (*up && (log_.ready() || now - *answered_ > kReadyLineGrace)) {
        auto token = generates();
        if (!token) return fail(token.error());
        if (*token) {
          const double seconds = std::chrono::duration<double>(context_.clock().steady() - started_).count();
          report_findings();
          return Readiness{seconds, served_name_, log_.facts(), log_.findings()};
        }
      }
    }
    if (auto wrong = stuck()) return fail(failed(*wrong));
    context_.clock().sleep(kPollEvery, [this] { return context_.cancelled(); });
  }
}

}  // namespace millwright
