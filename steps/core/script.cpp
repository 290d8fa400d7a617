#include "steps/core/script.hpp"

#include <fmt/format.h>

#include "orchestrator/base/shell.hpp"
#include "orchestrator/base/text.hpp"
#include "steps/core/controller_file.hpp"
#include "steps/core/run_parts.hpp"

namespace millwright {

namespace {

constexpr std::uint64_t kLargestScript = 1u << 20;

Signature make_signature() {
  Signature s;
  s.kind = "script";
  s.summary = "Run a script of the controller on the node.";
  s.doc =
      "The text travels to a folder on the node that only the step's user can read, runs there with `args`, and is "
      "removed whatever happens. `interpreter`, else the script's own #! line, else /bin/sh runs it.\n\n"
      "Guards and `undo` are those of `command`: without a guard it runs every time.";
  s.inputs = {{.name = "source",
               .doc = "A file on the controller; a relative path starts at the playbook's folder.",
               .controller_file = true,
               .known_elsewhere_as = {"src", "file", "path", "cmd"}},
              {.name = "content", .doc = "The script itself, instead of `source`.", .known_elsewhere_as = {"inline"}},
              {.name = "args", .type = ValueType::list, .doc = "Its arguments."},
              {.name = "interpreter",
               .doc = "What runs it, e.g. \"bash -e\" or python3.",
               .known_elsewhere_as = {"executable"}}};
  core::add_run_inputs(s.inputs);
  s.outputs = core::run_outputs();
  s.positional = "source";
  s.example =
      "- uses: script\n"
      "  with:\n"
      "    source: files/tune.sh\n"
      "    args: [--profile, latency]\n"
      "    unless: test \"$(cat /sys/module/pcie_aspm/parameters/policy)\" = performance\n";
  return s;
}

std::string interpreter_of(const Inputs& inputs, const std::string& text) {
  if (inputs.has("interpreter")) {
    std::vector<std::string> words;
    for (const std::string& word : split(inputs.string("interpreter"), ' ')) {
      if (!word.empty()) words.push_back(word);
    }
    return shell_join(words);
  }
  if (!starts_with(text, "#!")) return "/bin/sh";
  // As the kernel reads it: a program and at most one argument.
  const std::string_view line = trim(std::string_view(text).substr(2, text.find('\n') - 2));
  const std::size_t blank = line.find_first_of(" \t");
  std::string out = shell_quote(line.substr(0, blank));
  if (blank != std::string_view::npos) out += ' ' + shell_quote(trim(line.substr(blank)));
  return out;
}

std::string render_script(const Inputs& inputs, const std::string& text) {
  const std::string end = "MW_" + sha256_hex(text).substr(0, 24);
  std::string out =
      "umask 077\n"
      "mw_dir=$(mktemp -d)\n"
      "trap 'rm -rf \"$mw_dir\"' EXIT\n"
      "trap 'exit 129' HUP\ntrap 'exit 130' INT\ntrap 'exit 143' TERM\n";
  out += fmt::format("cat >\"$mw_dir/script\" <<'{0}'\n{1}{2}{0}\n", end, text, ends_with(text, "\n") ? "" : "\n");
  out += core::run_prelude(inputs);
  out += "umask 022\n";
  out += fmt::format("{} \"$mw_dir/script\"", interpreter_of(inputs, text));
  const std::string args = shell_join(inputs.strings("args"));
  return out + (args.empty() ? "\n" : " " + args + "\n");
}

Result<std::string> script_text(const Inputs& inputs) {
  if (inputs.has("content")) return inputs.string("content");
  return core::read_controller_file(inputs.string("source"), kLargestScript);
}

}  // namespace

const Signature& ScriptStep::signature() const {
  static const Signature signature = make_signature();
  return signature;
}

std::vector<Error> ScriptStep::check(const Inputs& inputs) const {
  std::vector<Error> errors;
  core::check_run_inputs(inputs, errors);
  if (inputs.has("source") && inputs.has("content")) {
    errors.push_back(core::input_error("content", "give either 'source' or 'content', not both"));
  }
  if (inputs.has("interpreter") && trim(inputs.string("interpreter")).empty()) {
    errors.push_back(core::input_error("interpreter", "'interpreter' is empty"));
  }
  if (!inputs.has("source")) return errors;
  const auto text = core::read_controller_file(inputs.string("source"), kLargestScript);
  if (!text) {
    errors.push_back(core::input_error("source", text.error().message));
  } else if (text->find('\0') != std::string::npos) {
    errors.push_back(core::input_error("source", fmt::format("{} is a program, not a script", inputs.string("source")),
                                       "place it with `file` (mode \"0755\") and run it with `command`"));
  }
  return errors;
}

std::vector<Question> ScriptStep::ask(const Inputs& inputs) const { return core::guard_questions(inputs); }

std::vector<Expectation> ScriptStep::expect(const Inputs& inputs, const Answers&, const Change&) const {
  return core::guard_expectations(inputs);
}

Result<Change> ScriptStep::plan(const Inputs& inputs, const Answers& answers) const {
  if (!inputs.has("source") && !inputs.has("content")) {
    return fail(ErrorKind::invalid, "script needs 'source' or 'content'");
  }
  const auto text = script_text(inputs);
  if (!text) return fail(text.error());
  const std::string name = inputs.has("content") ? "inline text" : inputs.string("source");
  return core::plan_run(inputs, answers, "run script " + name, render_script(inputs, *text));
}

Result<Value> ScriptStep::outputs(const Inputs&, const Answers&, const std::vector<ActionResult>& results) const {
  return core::run_output_values(results);
}

}  // namespace millwright
