#include "steps/core/reboot.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "orchestrator/base/text.hpp"
#include "orchestrator/base/units.hpp"

namespace millwright {

namespace {

// Of a host the boot id changes; a container keeps its host's, but its first process is another one.
constexpr std::string_view kBootMark = R"sh(id=$(cat /proc/sys/kernel/random/boot_id) || exit 1
read -r stat </proc/1/stat || exit 1
stat=${stat##*) }
set -- $stat
shift 19
echo "$id $1"
)sh";

Signature make_signature() {
  Signature s;
  s.kind = "reboot";
  s.summary = "Restart the node and wait until it is up again.";
  s.doc =
      "It is down when the connection drops, and up again when the kernel's boot id (in a container: its first "
      "process) "
      "is another one and `test_command` ends with 0. Coming back with the old one is not success.\n\n"
      "`when: needed` reboots only if the system asks for it (/run/reboot-required) or `needed_if` ends with 0.\n\n"
      "A reboot cannot be taken back.";
  s.inputs = {{.name = "when",
               .default_value = "always",
               .one_of = {"always", "needed"},
               .doc = "always, or only when the system or `needed_if` asks for it."},
              {.name = "needed_if", .doc = "Shell text that only looks; 0 means that a reboot is needed."},
              {.name = "timeout",
               .type = ValueType::duration,
               .default_value = "10m",
               .doc = "To be up again.",
               .known_elsewhere_as = {"reboot_timeout"}},
              {.name = "command",
               .default_value = "systemctl reboot",
               .doc = "What restarts it.",
               .known_elsewhere_as = {"reboot_command"}},
              {.name = "test_command",
               .default_value = "true",
               .doc = "Shell text that only looks; asked until it ends with 0."}};
  s.outputs = {{.name = "rebooted", .type = ValueType::boolean, .doc = "Whether it did."},
               {.name = "elapsed", .type = ValueType::number, .doc = "Seconds until it was up again."},
               {.name = "boot_id", .doc = "The kernel's boot id after it."}};
  s.positional = "when";
  s.example =
      "- uses: reboot\n"
      "  with:\n"
      "    when: needed\n"
      "    needed_if: test ! -e /sys/module/nvidia\n";
  s.deadline = std::chrono::minutes(15);
  s.once = true;
  return s;
}

std::string needed_script(const Inputs& inputs) {
  std::string script =
      "if [ -e /run/reboot-required ] || [ -e /var/run/reboot-required ]; then\n"
      "  echo needed\n"
      "  cat /run/reboot-required.pkgs 2>/dev/null || true\n"
      "  exit 0\n"
      "fi\n";
  if (inputs.has("needed_if")) {
    script += "if (\n" + inputs.string("needed_if") + "\n) >/dev/null 2>&1; then echo needed; fi\n";
  }
  return script;
}

// Why a reboot is due, from the answer to needed_script; nothing: it is not.
std::optional<std::string> reason(const Inputs& inputs, const Answer& answer) {
  if (inputs.string("when") == "always") return "asked for";
  std::vector<std::string> lines = split_lines(answer.out);
  if (lines.empty() || lines[0] != "needed") return std::nullopt;
  lines.erase(lines.begin());
  std::sort(lines.begin(), lines.end());
  lines.erase(std::unique(lines.begin(), lines.end()), lines.end());
  return lines.empty() ? "the node asks for it" : "needed by " + join(lines, ", ");
}

Result<std::string> boot_mark(StepNode& node) {
  NodeCommand command;
  command.script = std::string(kBootMark);
  command.deadline = std::chrono::seconds(20);
  const auto answer = node.run(command);
  if (!answer) return fail(answer.error());
  const std::string mark(trim(answer->out));
  if (!answer->ok() || mark.empty()) {
    Error error =
        make_error(ErrorKind::refused, "the node does not tell its boot id, so a reboot could not be verified");
    error.hint = "/proc must be mounted on the node";
    error.detail = answer->err;
    return fail(std::move(error));
  }
  return mark;
}

bool is_loss_of_connection(const Error& error) {
  return error.kind == ErrorKind::connect || error.kind == ErrorKind::timeout || error.kind == ErrorKind::transfer ||
         error.kind == ErrorKind::auth;  // pam_nologin while it goes down and comes up
}

// The command's own shell may be killed before it ends. Whether the node really restarted, its boot mark tells.
bool was_killed(const Error& error) { return error.kind == ErrorKind::remote_exit && error.exit_code > 128; }

class Waiting {
 public:
  Waiting(StepContext& context, SteadyPoint until) : context_(context), until_(until) {}

  // Until the node answers with another mark than `before`. Reconnects are kept short so that Ctrl-C is heard.
  Result<std::string> for_new_boot(const std::string& before) {
    std::string last = "it has not gone down yet";
    while (auto remaining = left()) {
      if (context_.cancelled()) return interrupted();
      context_.progress("waiting for it to come back: " + last, {});
      const auto again = context_.node().reconnect(std::min<Milliseconds>(*remaining, std::chrono::seconds(20)));
      if (!again) {
        if (!is_loss_of_connection(again.error())) return fail(again.error());
        last = again.error().message;
        pause();
        continue;
      }
      const auto mark = boot_mark(context_.node());
      if (mark && *mark != before) return *mark;
      last = mark ? "it has not gone down yet" : mark.error().message;
      pause();
    }
    return late("did not come back", last);
  }

  Result<void> for_test(const std::string& script) {
    NodeCommand command;
    command.script = script;
    std::string last;
    while (left()) {
      if (context_.cancelled()) return interrupted();
      const auto answer = context_.node().run(command);
      if (answer && answer->ok()) return {};
      if (!answer && !is_loss_of_connection(answer.error())) return fail(answer.error());
      last = answer ? fmt::format("exit status {} {}", answer->exit_code, trim(answer->err)) : answer.error().message;
      context_.progress("it is back, but test_command says no: " + last, {});
      if (!answer) {
        const auto again = context_.node().reconnect(std::chrono::seconds(20));
        if (!again && !is_loss_of_connection(again.error())) return fail(again.error());
      }
      pause();
    }
    return late("is back, but test_command still says no", last);
  }

 private:
  std::optional<Milliseconds> left() const {
    const auto remaining = std::chrono::duration_cast<Milliseconds>(until_ - context_.clock().steady());
    return remaining.count() > 0 ? std::optional<Milliseconds>(remaining) : std::nullopt;
  }
  void pause() {
    context_.clock().sleep(std::chrono::seconds(1), [this] { return context_.cancelled(); });
  }
  Failure interrupted() const { return fail(ErrorKind::interrupted, "stopped while the node reboots"); }
  Failure late(const std::string& what, const std::string& last) const {
    return fail(make_error(ErrorKind::timeout, fmt::format("{} {} in time: {}", context_.node().name(), what, last))
                    .with_hint("look at its console; a longer `timeout` helps machines that test their memory"));
  }

  StepContext& context_;
  SteadyPoint until_;
};

Action reboot_action(const Inputs& inputs) {
  Action action;
  action.title = "reboot";
  action.script = inputs.string("command") + "\n";
  action.deadline = std::chrono::minutes(1);
  action.marks.destructive = true;
  action.marks.may_drop_connection = true;
  return action;
}

}  // namespace

const Signature& RebootStep::signature() const {
  static const Signature signature = make_signature();
  return signature;
}

std::vector<Question> RebootStep::preview_questions(const Inputs& inputs) const {
  return {{.key = "needed", .script = needed_script(inputs)}};
}

Result<std::string> RebootStep::preview(const Inputs& inputs, const Answers& answers) const {
  const auto why = reason(inputs, answers.at("needed"));
  return why ? "reboot (" + *why + ")" : "no reboot needed";
}

Result<StepOutcome> RebootStep::run(StepContext& context) const {
  const Inputs& inputs = context.inputs();
  NodeCommand ask;
  ask.script = needed_script(inputs);
  const auto needed = context.node().run(ask);
  if (!needed) return fail(needed.error());
  const auto before = boot_mark(context.node());
  if (!before) return fail(before.error());
  StepOutcome outcome;
  const auto why = reason(inputs, *needed);
  if (!why) {
    outcome.summary = "no reboot needed";
    outcome.outputs = {{"rebooted", false}, {"elapsed", 0}, {"boot_id", before->substr(0, before->find(' '))}};
    return outcome;
  }
  const SteadyPoint began = context.clock().steady();
  context.progress("rebooting (" + *why + ")", {});
  const auto acted = context.act(reboot_action(inputs));
  if (!acted && !is_loss_of_connection(acted.error()) && !was_killed(acted.error())) {
    return fail(wrap(acted.error(), "restarting the node"));
  }

  Waiting waiting(context, std::min(context.deadline(), began + inputs.duration("timeout")));
  const auto mark = waiting.for_new_boot(*before);
  if (!mark) return fail(mark.error());
  if (auto tested = waiting.for_test(inputs.string("test_command")); !tested) return fail(tested.error());

  const auto elapsed = std::chrono::duration_cast<Milliseconds>(context.clock().steady() - began);
  outcome.state = StepState::changed;
  outcome.summary = fmt::format("rebooted ({}), up again after {}", *why, format_duration(elapsed));
  outcome.outputs = {{"rebooted", true},
                     {"elapsed", static_cast<double>(elapsed.count()) / 1000},
                     {"boot_id", mark->substr(0, mark->find(' '))}};
  return outcome;
}

}  // namespace millwright
