#include "steps/core/assert.hpp"

#include <fmt/format.h>

#include <optional>

#include "orchestrator/base/text.hpp"
#include "steps/core/run_parts.hpp"

namespace millwright {

namespace {

Signature make_signature() {
  Signature s;
  s.kind = "assert";
  s.summary = "Stop here unless all of these hold.";
  s.doc =
      "Each entry of `that` is an expression in {{ }}, or a mapping {that, msg} with a sentence of its own. Nothing is "
      "asked of the node and nothing is changed.";
  s.inputs = {
      {.name = "that",
       .type = ValueType::list,
       .need = Need::required,
       .doc = "Conditions, e.g. \"{{ steps.gpus.count >= 2 }}\".",
       .rendered_into = "written"},
      {.name = "written",
       .type = ValueType::list,
       .doc = "How they stand in the playbook, shown when one does not hold. Filled in when the playbook is read."},
      {.name = "msg", .doc = "What to say when one does not hold.", .known_elsewhere_as = {"fail_msg", "message"}}};
  s.outputs = {{.name = "checked", .type = ValueType::integer, .doc = "How many conditions were looked at."}};
  s.positional = "that";
  s.example =
      "- uses: assert\n"
      "  with:\n"
      "    that:\n"
      "      - \"{{ inputs.port > 1023 }}\"\n"
      "      - {that: \"{{ 'gpu' in host.groups }}\", msg: only GPU hosts can serve a model}\n";
  return s;
}

// Empty: the value is no condition.
std::optional<bool> truth(const Value& value) {
  if (value.is_null()) return false;
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number()) return value.get<double>() != 0;
  if (value.is_structured()) return !value.empty();
  const std::string& text = value.get_ref<const std::string&>();
  if (text == "true" || text == "True") return true;
  if (text.empty() || text == "false" || text == "False") return false;
  return std::nullopt;
}

bool has_own_message(const Value& entry) { return entry.is_object() && entry.contains("that"); }

const Value& condition_of(const Value& entry) { return has_own_message(entry) ? entry["that"] : entry; }

}  // namespace

const Signature& AssertStep::signature() const {
  static const Signature signature = make_signature();
  return signature;
}

std::vector<Error> AssertStep::check(const Inputs& inputs) const {
  std::vector<Error> errors;
  if (!inputs.has("that")) return errors;
  std::size_t number = 0;
  for (const Value& entry : inputs.value("that")) {
    ++number;
    const Value& condition = condition_of(entry);
    if (truth(condition)) continue;
    errors.push_back(
        core::input_error("that", fmt::format("condition {} is text: '{}'", number, condition.get<std::string>()),
                          "conditions are expressions: write \"{{ " + condition.get<std::string>() + " }}\""));
  }
  return errors;
}

std::vector<Question> AssertStep::ask(const Inputs&) const { return {}; }

Result<Change> AssertStep::plan(const Inputs& inputs, const Answers&) const {
  const Value& conditions = inputs.value("that");
  const std::size_t total = conditions.size();
  std::size_t number = 0;
  for (const Value& entry : conditions) {
    ++number;
    if (truth(condition_of(entry)).value_or(false)) continue;
    std::string said = inputs.string_or("msg", "");
    if (has_own_message(entry) && entry.contains("msg") && entry["msg"].is_string()) said = entry["msg"];
    std::string message =
        total == 1 ? "the condition does not hold" : fmt::format("condition {} of {} does not hold", number, total);
    const std::vector<std::string> written =
        inputs.has("written") ? inputs.strings("written") : std::vector<std::string>();
    // A list that is computed as a whole stands there as one text.
    if (!written.empty()) message += ": " + (written.size() == total ? written[number - 1] : written[0]);
    if (!said.empty()) message = said + " (" + message + ")";
    return fail(ErrorKind::refused, std::move(message));
  }
  Change change;
  change.summary = total == 1 ? "it holds" : fmt::format("all {} hold", total);
  change.outputs = {{"checked", total}};
  return change;
}

}  // namespace millwright
