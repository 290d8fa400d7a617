#include "steps/core/run_parts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "orchestrator/base/shell.hpp"
#include "orchestrator/base/text.hpp"

namespace millwright::core {

namespace {

bool is_variable_name(const std::string& name) {
  const auto word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; };
  return !name.empty() && std::isdigit(static_cast<unsigned char>(name.front())) == 0 &&
         std::all_of(name.begin(), name.end(), word);
}

std::string text_of(const Value& value) { return value.is_string() ? value.get<std::string>() : value.dump(); }

}  // namespace

void add_run_inputs(std::vector<InputSpec>& inputs) {
  inputs.insert(
      inputs.end(),
      {{.name = "chdir", .doc = "Folder to run in.", .known_elsewhere_as = {"cwd", "working_directory"}},
       {.name = "env",
        .type = ValueType::mapping,
        .doc = "Environment variables; nothing is inherited except PATH, HOME and LC_ALL=C.",
        .known_elsewhere_as = {"environment"}},
       {.name = "creates", .doc = "Guard: nothing runs when this path exists; afterwards it must."},
       {.name = "removes", .doc = "Guard: nothing runs when this path is absent; afterwards it must be."},
       {.name = "unless",
        .doc = "Guard: shell text that only looks. Nothing runs when it ends with 0; afterwards it must.",
        .known_elsewhere_as = {"not_if"}},
       {.name = "undo",
        .doc =
            "Shell text that takes it back. It must do no harm when it runs twice, or when the command ran "
            "half or not at all. Exit status 65 refuses. Without it the plan says that the step cannot be taken back."},
       {.name = "may_drop_connection",
        .type = ValueType::boolean,
        .default_value = false,
        .doc =
            "It may cut the way to the node (network, firewall, sshd). Nothing else runs there meanwhile, success is "
            "a new login, and a timer on the node runs `undo` when nobody has logged in within `return_within`. "
            "Needs `undo`."},
       {.name = "return_within",
        .type = ValueType::duration,
        .default_value = "3m",
        .doc = "With `may_drop_connection`: how long it may take, the new login included, before the node goes back by "
               "itself; after the same time once more it also takes back what the run had done there before."}});
}

std::vector<OutputSpec> run_outputs() {
  return {{.name = "stdout", .doc = "What it printed, without trailing newlines; empty when a guard held it back."},
          {.name = "stderr", .doc = "What it printed to standard error, likewise."},
          {.name = "rc", .type = ValueType::integer, .doc = "Its exit status."}};
}

Error input_error(std::string input, std::string message, std::string hint) {
  Error error = make_error(ErrorKind::invalid, std::move(message));
  error.hint = std::move(hint);
  error.detail = std::move(input);
  return error;
}

void check_run_inputs(const Inputs& inputs, std::vector<Error>& errors) {
  for (const std::string_view name : {"chdir", "creates", "removes"}) {
    if (!inputs.has(name) || starts_with(inputs.string(name), "/")) continue;
    errors.push_back(input_error(std::string(name), fmt::format("'{}' must be an absolute path", name)));
  }
  if (inputs.has("may_drop_connection") && inputs.boolean("may_drop_connection") && !inputs.has("undo")) {
    errors.push_back(input_error("may_drop_connection", "'may_drop_connection' needs 'undo'",
                                 "it is what the node runs by itself when the connection does not come back"));
  }
  if (!inputs.has("env")) return;
  for (const auto& [name, value] : inputs.value("env").items()) {
    if (!is_variable_name(name)) {
      errors.push_back(input_error("env", fmt::format("'{}' cannot be the name of an environment variable", name),
                                   "letters, digits and _ only, and no digit first"));
    } else if (value.is_structured()) {
      errors.push_back(input_error("env", fmt::format("the variable {} must be a plain value", name)));
    }
  }
}

std::string run_prelude(const Inputs& inputs) {
  std::string out;
  if (inputs.has("env")) {
    for (const auto& [name, value] : inputs.value("env").items()) {
      if (value.is_null()) continue;
      out += fmt::format("export {}={}\n", name, shell_quote(text_of(value)));
    }
  }
  if (inputs.has("chdir")) out += fmt::format("cd -- {} || exit\n", shell_quote(inputs.string("chdir")));
  return out;
}

bool has_guard(const Inputs& inputs) { return inputs.has("creates") || inputs.has("removes") || inputs.has("unless"); }

std::vector<Question> guard_questions(const Inputs& inputs) {
  if (!has_guard(inputs)) return {};
  std::string script;
  if (inputs.has("creates")) {
    const std::string path = shell_quote(inputs.string("creates"));
    script += fmt::format("if [ -e {0} ] || [ -L {0} ]; then echo creates yes; else echo creates no; fi\n", path);
  }
  if (inputs.has("removes")) {
    const std::string path = shell_quote(inputs.string("removes"));
    script += fmt::format("if [ -e {0} ] || [ -L {0} ]; then echo removes no; else echo removes yes; fi\n", path);
  }
  if (inputs.has("unless")) {
    // Its own output is no part of the answer: it may differ each time although nothing changed. The folder may be
    // absent as long as the command has not made it.
    script += "if (\n" + run_prelude(inputs) + inputs.string("unless") +
              "\n) >/dev/null 2>&1; then echo unless yes; else echo unless no; fi\n";
  }
  return {{.key = "guard", .script = script}};
}

std::vector<Expectation> guard_expectations(const Inputs& inputs) {
  // The first is enough; what the others say is of no interest then.
  for (const std::string name : {"creates", "removes", "unless"}) {
    if (inputs.has(name)) return {{"guard", {name + " yes\n", ""}}};
  }
  return {};
}

Result<std::string> guard_satisfied(const Inputs& inputs, const Answers& answers) {
  if (!has_guard(inputs)) return std::string();
  const Answer& answer = answers.at("guard");
  if (!answer.ok()) {
    Error error = make_error(ErrorKind::refused, "the guards of the step cannot be asked");
    error.hint = inputs.has("unless") ? "`unless` is not valid shell text; see what the shell said" : "";
    error.detail = answer.err;
    return fail(std::move(error));
  }
  for (const std::string& line : split_lines(answer.out)) {
    if (line == "creates yes") return fmt::format("{} exists", inputs.string("creates"));
    if (line == "removes yes") return fmt::format("{} is absent", inputs.string("removes"));
    if (line == "unless yes") return std::string("`unless` holds");
  }
  return std::string();
}

Result<Change> plan_run(const Inputs& inputs, const Answers& answers, std::string title, std::string script) {
  const Result<std::string> satisfied = guard_satisfied(inputs, answers);
  if (!satisfied) return fail(satisfied.error());
  Change change;
  change.outputs = run_output_values({});
  if (!satisfied->empty()) {
    change.summary = *satisfied;
    return change;
  }
  Action action;
  action.title = title;
  action.script = std::move(script);
  if (inputs.has("undo")) {
    action.undo = run_prelude(inputs) + inputs.string("undo") + "\n";
    const std::string text = inputs.string("undo");
    action.undo_title = "run: " + text.substr(0, text.find('\n'));
  }
  if (inputs.boolean("may_drop_connection")) {
    action.marks.may_drop_connection = true;
    action.deadline = inputs.duration("return_within");
  }
  change.summary = std::move(title);
  change.verification = has_guard(inputs) ? Verification::ask_again : Verification::exit_status;
  change.actions.push_back(std::move(action));
  return change;
}

Value run_output_values(const std::vector<ActionResult>& results) {
  Value out = {{"stdout", ""}, {"stderr", ""}, {"rc", 0}};
  if (results.empty()) return out;
  const auto trimmed = [](std::string text) {
    while (!text.empty() && text.back() == '\n') text.pop_back();
    return text;
  };
  const Answer& last = results.back().answer;
  out["stdout"] = trimmed(last.out);
  out["stderr"] = trimmed(last.err);
  out["rc"] = last.exit_code;
  return out;
}

}  // namespace millwright::core
