#include "steps/core/command.hpp"

#include "orchestrator/base/shell.hpp"
#include "orchestrator/base/text.hpp"
#include "steps/core/run_parts.hpp"

namespace millwright {

namespace {

Signature make_signature() {
  Signature s;
  s.kind = "command";
  s.summary = "Run a command.";
  s.doc =
      "`run` is shell text for /bin/sh (a failing line ends it, as `sh -e` does), or a list of words that no shell "
      "looks at.\n\n"
      "Without a guard (`creates`, `removes`, `unless`) it runs every time and success is exit status 0. With one it "
      "converges: it runs only when no guard is satisfied, and the step fails when none is satisfied afterwards.\n\n"
      "`undo` takes it back in a rollback; without one the plan names the step as what cannot be taken back.";
  s.inputs.push_back({.name = "run",
                      .type = ValueType::any,
                      .need = Need::required,
                      .doc = "Shell text, or a list of words.",
                      .known_elsewhere_as = {"cmd", "argv", "_raw_params", "shell"}});
  core::add_run_inputs(s.inputs);
  s.outputs = core::run_outputs();
  s.positional = "run";
  s.example =
      "- uses: command\n"
      "  with: nvidia-smi -pm 1\n"
      "- id: unpack\n"
      "  uses: command\n"
      "  with:\n"
      "    run: [tar, -xf, /var/tmp/tool.tar, -C, /opt]\n"
      "    creates: /opt/tool\n"
      "    undo: rm -rf /opt/tool\n";
  return s;
}

bool is_words(const Value& run) { return run.is_array(); }

std::string command_text(const Inputs& inputs) {
  if (is_words(inputs.value("run"))) return shell_join(inputs.strings("run"));
  return inputs.string("run");
}

// The first line, so that a plan stays readable; the whole text is in the action's script.
std::string title_of(const std::string& text) {
  const std::string_view line = trim(std::string_view(text).substr(0, text.find('\n')));
  std::string title = "run: " + std::string(line.substr(0, 100));
  if (line.size() > 100 || trim(text).size() > line.size()) title += " ...";
  return title;
}

}  // namespace

const Signature& CommandStep::signature() const {
  static const Signature signature = make_signature();
  return signature;
}

std::vector<Error> CommandStep::check(const Inputs& inputs) const {
  std::vector<Error> errors;
  core::check_run_inputs(inputs, errors);
  if (!inputs.has("run")) return errors;
  const Value& run = inputs.value("run");
  bool plain = run.is_string() || run.is_array();
  if (run.is_array()) {
    for (const Value& word : run) plain = plain && (word.is_string() || word.is_number() || word.is_null());
  }
  if (!plain) {
    errors.push_back(core::input_error("run", "'run' must be shell text or a list of words",
                                       "put words that look like numbers or booleans in quotes"));
  } else if (run.empty() || (run.is_string() && trim(run.get_ref<const std::string&>()).empty())) {
    errors.push_back(core::input_error("run", "'run' is empty"));
  }
  return errors;
}

std::vector<Question> CommandStep::ask(const Inputs& inputs) const { return core::guard_questions(inputs); }

std::vector<Expectation> CommandStep::expect(const Inputs& inputs, const Answers&, const Change&) const {
  return core::guard_expectations(inputs);
}

Result<Change> CommandStep::plan(const Inputs& inputs, const Answers& answers) const {
  const std::string text = command_text(inputs);
  return core::plan_run(inputs, answers, title_of(text), core::run_prelude(inputs) + "set +u\n" + text + "\n");
}

Result<Value> CommandStep::outputs(const Inputs&, const Answers&, const std::vector<ActionResult>& results) const {
  return core::run_output_values(results);
}

}  // namespace millwright
