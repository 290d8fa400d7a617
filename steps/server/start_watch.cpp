#include "steps/server/start_watch.hpp"

#include "orchestrator/base/shell.hpp"
#include "orchestrator/base/text.hpp"
#include "orchestrator/base/units.hpp"

namespace millwright {

namespace {

constexpr std::string_view kCursorLine = "-- cursor: ";
constexpr Milliseconds kPollEvery{500};
// A server that answers but whose ready line never came (another version's wording) counts as ready after this.
constexpr Milliseconds kReadyLineGrace{5000};

// Splits journalctl's output from its last line, "-- cursor: s=...".
std::string take_cursor(std::string& text) {
  const std::size_t at = text.rfind(kCursorLine);
  if (at == std::string::npos || (at != 0 && text[at - 1] != '\n')) return {};
  const std::string cursor(trim(std::string_view(text).substr(at + kCursorLine.size())));
  text.erase(at);
  return cursor;
}

std::string poll_script(const std::string& unit, const std::string& cursor) {
  const std::string after = cursor.empty() ? "-n 5000" : "--after-cursor=" + shell_quote(cursor);
  return "systemctl show -p ActiveState,SubState,Result,ExecMainCode,ExecMainStatus,NRestarts,MainPID " +
         shell_quote(unit) + "\npid=$(systemctl show -P MainPID " + shell_quote(unit) +
         ")\necho \"load $(cut -d ' ' -f 2 /proc/\"$pid\"/statm 2>/dev/null || :)\"\necho ----\n" +
         "journalctl -q -u " + shell_quote(unit) + " -o cat --no-pager --show-cursor " + after + "\n";
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

StartWatch::StartWatch(StepContext& context, const ServerSpec& spec, const EngineProfile& profile, std::string cursor)
    : context_(context),
      spec_(spec),
      log_(profile),
      cursor_(std::move(cursor)),
      started_(context.clock().steady()),
      moved_(started_) {}

Result<UnitState> StartWatch::poll() {
  NodeCommand command;
  command.script = poll_script(spec_.unit(), cursor_);
  auto answer = context_.node().run(command);
  if (!answer) return fail(answer.error());
  const std::size_t split_at = answer->out.find("----\n");
  if (split_at == std::string::npos) {
    return fail(ErrorKind::internal, "the node's answer about " + spec_.unit() + " is cut short: " + answer->err);
  }
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
  return parse_unit_state(head);
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

Error StartWatch::failed(const Diagnosis& diagnosis) {
  const std::string kept = context_.keep("server-" + spec_.name + "-start.log", log_.text());
  std::string message = spec_.engine + " " + spec_.version + " did not start: " + diagnosis.sentence;
  if (!diagnosis.line.empty()) {
    message += " (log line " + std::to_string(diagnosis.line_number) + ": \"" + diagnosis.line.substr(0, 160) + "\")";
  }
  Error error = make_error(ErrorKind::failed_test, std::move(message));
  error.symptom_class = diagnosis.symptom_class;
  error.hint = "its log is kept as " + kept;
  return error;
}

Result<Readiness> StartWatch::run() {
  SteadyPoint answered{};
  while (true) {
    if (context_.cancelled()) return fail(ErrorKind::interrupted, "stopped while " + spec_.name + " was starting");
    auto unit = poll();
    if (!unit) return fail(unit.error());
    report_progress();
    if (unit->ended()) return fail(failed(diagnose(*unit, log_)));
    const SteadyPoint now = context_.clock().steady();
    if (log_.ready() || log_.lines() > 0) {
      auto up = answers();
      if (!up) return fail(up.error());
      if (*up && answered == SteadyPoint{}) answered = now;
      if (*up && (log_.ready() || now - answered > kReadyLineGrace)) {
        const double seconds = std::chrono::duration<double>(now - started_).count();
        return Readiness{seconds, served_name_, log_.facts()};
      }
    }
    if (now - moved_ > spec_.stall_timeout) {
      return fail(failed({"start_timeout",
                          "nothing moved for " + format_duration(spec_.stall_timeout) +
                              (log_.stage().empty() ? "" : " while " + log_.stage()),
                          log_.last_line(), log_.lines()}));
    }
    if (now - started_ > spec_.ready_timeout || now > context_.deadline()) {
      return fail(
          failed({"start_timeout",
                  "it was not ready after " + format_duration(std::chrono::duration_cast<Milliseconds>(now - started_)),
                  log_.last_line(), log_.lines()}));
    }
    context_.clock().sleep(kPollEvery, [this] { return context_.cancelled(); });
  }
}

}  // namespace millwright
