#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "orchestrator/base/text.hpp"
#include "orchestrator/base/units.hpp"
#include "orchestrator/cli/options.hpp"
#include "orchestrator/cli/step_kinds.hpp"
#include "orchestrator/cli/verbs.hpp"
#include "orchestrator/report/text_layout.hpp"

namespace millwright {
namespace {

struct Options {
  std::string kind;
  bool markdown = false;
};

std::string shown(const Value& value) {
  return value.is_string() ? value.get<std::string>() : value.dump(-1, ' ', false, Value::error_handler_t::replace);
}

// "string, required, one of lxc, pct"
std::string type_line(const InputSpec& input) {
  std::string line(to_string(input.type));
  if (input.need == Need::required) line += ", required";
  if (!input.default_value.is_null()) line += ", default " + shown(input.default_value);
  if (!input.one_of.empty()) line += ", one of " + join(input.one_of, ", ");
  if (input.secrecy == Secrecy::secret) line += ", secret";
  return line;
}

void paragraph(std::string& out, const std::string& text, std::size_t indent, std::size_t columns) {
  for (const std::string& part : split_lines(text)) {
    for (const std::string& line : wrap_text(part, columns - indent))
      out += line.empty() ? "\n" : std::string(indent, ' ') + line + "\n";
  }
}

void inputs_text(std::string& out, const std::vector<InputSpec>& inputs, std::size_t indent, std::size_t columns) {
  for (const InputSpec& input : inputs) {
    out += fmt::format("{}{}  ({})\n", std::string(indent, ' '), input.name, type_line(input));
    paragraph(out, input.doc, indent + 6, columns);
    inputs_text(out, input.fields, indent + 4, columns);
  }
}

std::string as_text(const Signature& signature, std::size_t columns) {
  std::string out = fmt::format("{}: {}\n\n", signature.kind, signature.summary);
  paragraph(out, signature.doc, 0, columns);
  out += "\nInputs:\n";
  if (signature.inputs.empty()) out += "  none\n";
  inputs_text(out, signature.inputs, 2, columns);
  if (!signature.positional.empty())
    out += fmt::format("  A bare value under `with:` is `{}`.\n", signature.positional);
  if (!signature.outputs.empty()) out += "\nOutputs (steps.ID.NAME):\n";
  for (const OutputSpec& output : signature.outputs) {
    out += fmt::format("  {}  ({})\n", output.name, to_string(output.type));
    paragraph(out, output.doc, 8, columns);
  }
  if (signature.provides_node) out += "\nOther steps can run inside of it: in: ID\n";
  out += fmt::format("\nDeadline: {}\n", format_duration(signature.deadline));
  if (!signature.example.empty()) {
    out += "\nExample:\n";
    for (const std::string& line : split_lines(signature.example)) out += "  " + line + "\n";
  }
  return out;
}

std::string cell(const std::string& text) { return replace_all(replace_all(text, "|", "\\|"), "\n", " "); }

void inputs_markdown(std::string& out, const std::vector<InputSpec>& inputs, const std::string& prefix) {
  for (const InputSpec& input : inputs) {
    out += fmt::format("| `{}{}` | {} | {} | {} |\n", prefix, input.name, to_string(input.type),
                       input.need == Need::required    ? "required"
                       : input.default_value.is_null() ? ""
                                                       : "`" + cell(shown(input.default_value)) + "`",
                       cell(input.doc + (input.one_of.empty() ? "" : " One of " + join(input.one_of, ", ") + ".")));
    inputs_markdown(out, input.fields, prefix + input.name + ".");
  }
}

std::string as_markdown(const Signature& signature) {
  std::string out = fmt::format("## {}\n\n{}.\n\n{}\n", signature.kind, signature.summary, signature.doc);
  if (!signature.inputs.empty()) {
    out += "\n| input | type | default | meaning |\n|---|---|---|---|\n";
    inputs_markdown(out, signature.inputs, "");
  }
  if (!signature.positional.empty())
    out += fmt::format("\nA bare value under `with:` is `{}`.\n", signature.positional);
  if (!signature.outputs.empty()) {
    out += "\n| output | type | meaning |\n|---|---|---|\n";
    for (const OutputSpec& output : signature.outputs)
      out += fmt::format("| `{}` | {} | {} |\n", output.name, to_string(output.type), cell(output.doc));
  }
  if (signature.provides_node) out += "\nOther steps can run inside of it with `in:`.\n";
  if (!signature.example.empty()) out += fmt::format("\n```yaml\n{}\n```\n", trim(signature.example));
  return out;
}

Value inputs_json(const std::vector<InputSpec>& inputs) {
  Value out = Value::array();
  for (const InputSpec& input : inputs) {
    Value entry = {{"name", input.name},
                   {"type", to_string(input.type)},
                   {"required", input.need == Need::required},
                   {"default", input.default_value},
                   {"doc", input.doc},
                   {"secret", input.secrecy == Secrecy::secret}};
    if (!input.one_of.empty()) entry["one_of"] = input.one_of;
    if (!input.fields.empty()) entry["fields"] = inputs_json(input.fields);
    out.push_back(std::move(entry));
  }
  return out;
}

Value as_json(const Signature& signature) {
  Value outputs = Value::array();
  for (const OutputSpec& output : signature.outputs)
    outputs.push_back({{"name", output.name}, {"type", to_string(output.type)}, {"doc", output.doc}});
  return {{"kind", signature.kind},       {"summary", signature.summary},
          {"doc", signature.doc},         {"inputs", inputs_json(signature.inputs)},
          {"outputs", outputs},           {"positional", signature.positional},
          {"example", signature.example}, {"provides_node", signature.provides_node}};
}

int run(const Session& session, const Options& options) {
  const auto kinds = load_step_kinds(session);
  if (!kinds) return session.refuse(kinds.error());
  std::vector<std::string> names = kinds->registry.names();
  if (!options.kind.empty()) {
    if (kinds->registry.find(options.kind) == nullptr) {
      const auto near = nearest(options.kind, names);
      return session.refuse(
          make_error(ErrorKind::usage, fmt::format("there is no step kind '{}'", options.kind))
              .with_hint(near ? fmt::format("did you mean '{}'?", *near) : "known are " + join(names, ", ")));
    }
    names = {options.kind};
  }
  std::string out;
  if (session.common.json) {
    Value all = Value::array();
    for (const std::string& name : names) all.push_back(as_json(kinds->registry.find(name)->signature()));
    out = (options.kind.empty() ? all : all[0]).dump(2) + "\n";
  } else if (options.markdown) {
    if (options.kind.empty())
      out = "# Step reference\n\nMade by `millwright steps --markdown` from the signatures of the step kinds.\n";
    for (const std::string& name : names) out += "\n" + as_markdown(kinds->registry.find(name)->signature());
  } else if (!options.kind.empty()) {
    out = as_text(kinds->registry.find(options.kind)->signature(), std::max<std::size_t>(session.console.columns, 40));
  } else {
    std::size_t width = 0;
    for (const std::string& name : names) width = std::max(width, name.size());
    for (const std::string& name : names)
      out += pad(name, width) + "  " + kinds->registry.find(name)->signature().summary + "\n";
    out += "\nmillwright steps KIND shows the inputs, outputs and an example\n";
  }
  session.console.out(out);
  return kDone;
}

}  // namespace

void add_steps(CLI::App& app, Session& session) {
  const auto options = std::make_shared<Options>();
  CLI::App* verb = app.add_subcommand("steps", "Show the step kinds, their inputs and outputs");
  verb->add_option("kind", options->kind, "One step kind in full")->type_name("KIND");
  verb->add_flag("--markdown", options->markdown, "As the step reference of the documentation");
  add_common_options(*verb, session.common);
  add_examples(*verb, {"millwright steps", "millwright steps command"});
  verb->callback([&session, options] { session.chosen = [&session, options] { return run(session, *options); }; });
}

}  // namespace millwright
