#include <fmt/format.h>

#include <array>
#include <optional>

#include "orchestrator/base/text.hpp"
#include "orchestrator/playbook/document.hpp"

namespace millwright {
namespace {

constexpr std::array kTypes = {ValueType::string, ValueType::integer, ValueType::number,   ValueType::boolean,
                               ValueType::list,   ValueType::mapping, ValueType::duration, ValueType::size,
                               ValueType::mode,   ValueType::any};

void read_type(Reader& reader, const YamlNode& node, InputSpec& spec) {
  const auto text = reader.word(node, "'type'");
  if (!text) return;
  std::vector<std::string> names;
  for (const ValueType type : kTypes) {
    if (to_string(type) == *text) {
      spec.type = type;
      return;
    }
    names.emplace_back(to_string(type));
  }
  reader.error(node.mark, fmt::format("unknown type '{}'", *text),
               reader.suggest(*text, names, "types: " + join(names, ", ")));
}

void read_default(Reader& reader, const YamlNode& node, InputSpec& spec) {
  const std::optional<Template> compiled = reader.compiled(node);
  if (!compiled || node.kind == YamlKind::null) return;
  if (!compiled->is_constant()) {
    reader.error(node.mark, "a default cannot be an expression", "compute it under vars: from the input");
    return;
  }
  const Result<Value> checked = check_value(spec, compiled->constant_part());
  if (checked) {
    spec.default_value = *checked;
  } else {
    reader.error(node.mark, "the default does not fit: " + checked.error().message, checked.error().hint);
  }
}

void read_input(Reader& reader, const YamlNode& node, InputDecl& input) {
  if (!reader.is_mapping(node, fmt::format("input '{}'", input.spec.name))) return;
  reader.check_keys(node, {"type", "doc", "default", "required", "one_of", "secret"}, "an input");
  if (const YamlNode* type = node.find("type")) read_type(reader, *type, input.spec);
  if (const YamlNode* doc = node.find("doc")) input.spec.doc = reader.word(*doc, "'doc'").value_or("");
  if (const YamlNode* one_of = node.find("one_of")) input.spec.one_of = reader.words(*one_of, "'one_of'");
  if (const YamlNode* secret = node.find("secret")) {
    if (reader.boolean(*secret, "'secret'").value_or(false)) input.spec.secrecy = Secrecy::secret;
  }
  const YamlNode* given_default = node.find("default");
  if (given_default != nullptr) read_default(reader, *given_default, input.spec);
  if (const YamlNode* required = node.find("required")) {
    if (!reader.boolean(*required, "'required'").value_or(false)) return;
    input.spec.need = Need::required;
    if (given_default != nullptr && given_default->kind != YamlKind::null) {
      reader.error(required->mark, fmt::format("input '{}' is required and has a default", input.spec.name),
                   "leave one of them out");
    }
  }
}

}  // namespace

void read_inputs(Draft& draft, const YamlNode& node) {
  if (node.kind == YamlKind::null) return;
  if (!draft.reader.is_mapping(node, "'inputs'")) return;
  for (const auto& [key, value] : node.entries) {
    const auto name = draft.reader.name(key, "input");
    if (!name) continue;
    InputDecl input;
    input.spec.name = *name;
    input.mark = key.mark;
    read_input(draft.reader, value, input);
    draft.playbook.inputs.emplace(*name, std::move(input));
  }
}

namespace {

// `-e list=[a, b]`: as text it would be a list with one odd item.
std::optional<std::string> data_as_text(const InputSpec& spec, const Value& given) {
  const bool structured = spec.type == ValueType::list || spec.type == ValueType::mapping;
  if (!structured || !given.is_string()) return std::nullopt;
  const std::string text = given.get<std::string>();
  const std::string_view begin = trim(text).substr(0, 1);
  if (begin != "[" && begin != "{") return std::nullopt;
  return text;
}

}  // namespace

tl::expected<Value, std::vector<Error>> resolve_inputs(const Playbook& playbook, const Value& given) {
  std::vector<Error> errors;
  std::vector<std::string> names;
  for (const auto& [name, input] : playbook.inputs) names.push_back(name);
  for (const auto& [name, value] : given.items()) {
    if (playbook.inputs.count(name) != 0) continue;
    const auto near = nearest(name, names);
    std::string hint = near            ? fmt::format("did you mean '{}'?", *near)
                       : names.empty() ? "it takes no inputs"
                                       : "it takes: " + join(names, ", ");
    if (playbook.vars.count(name) != 0)
      hint = "it is a variable there; declare it under inputs: to set it from outside";
    errors.push_back(make_error(ErrorKind::usage, fmt::format("playbook {} has no input '{}'", playbook.path, name))
                         .with_hint(std::move(hint)));
  }
  Value out = Value::object();
  for (const auto& [name, input] : playbook.inputs) {
    const auto found = given.find(name);
    if (found == given.end() || found->is_null()) {
      if (input.spec.need == Need::required) {
        errors.push_back(make_error(ErrorKind::usage, fmt::format("input '{}' is required", name))
                             .at(input.mark)
                             .with_hint(fmt::format("give it with -e {}=...", name)));
      }
      out[name] = input.spec.default_value;
      continue;
    }
    if (const auto text = data_as_text(input.spec, *found)) {
      errors.push_back(
          make_error(ErrorKind::usage,
                     fmt::format("input '{}' is a {}, and '{}' is text", name, to_string(input.spec.type), *text))
              .at(input.mark)
              .with_hint(fmt::format("name=value gives text; data is JSON: -e '{{\"{}\": ...}}', or @FILE", name)));
      continue;
    }
    Result<Value> checked = check_value(input.spec, *found);
    if (checked) {
      out[name] = std::move(*checked);
    } else {
      Error error = checked.error();
      error.kind = ErrorKind::usage;
      error.detail.clear();
      errors.push_back(std::move(error).at(input.mark));
    }
  }
  if (!errors.empty()) return tl::unexpected(std::move(errors));
  return out;
}

}  // namespace millwright
