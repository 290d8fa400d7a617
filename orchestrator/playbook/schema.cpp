// JSON Schema, draft 2020-12 (https://json-schema.org/draft/2020-12/release-notes), of the playbook language. It is
// for editors, so it is a little wider than the loader: names in expressions and the graph are not in it.
#include "orchestrator/playbook/playbook.hpp"

namespace millwright {
namespace {

const Value kExpression = {{"type", "string"}, {"pattern", R"(\{\{)"}};

Value reference(const std::string& name) { return Value{{"$ref", "#/$defs/" + name}}; }

// What the loader takes for the type, coercions included.
Value type_schema(ValueType type) {
  switch (type) {
    case ValueType::string:
      return {{"type", {"string", "integer"}}};
    case ValueType::integer:
      return {{"anyOf", {{{"type", "integer"}}, {{"type", "string"}, {"pattern", "^\\s*-?[0-9]+\\s*$"}}}}};
    case ValueType::number:
      return {{"anyOf", {{{"type", "number"}}, {{"type", "string"}, {"pattern", "^\\s*-?[0-9.]"}}}}};
    case ValueType::boolean:
      return {{"anyOf", {{{"type", "boolean"}}, {{"type", "string"}, {"pattern", "^(?i:yes|no|on|off|true|false)$"}}}}};
    case ValueType::list:
      return {{"type", {"array", "string", "integer", "number", "boolean"}}};
    case ValueType::mapping:
      return {{"type", "object"}};
    case ValueType::duration:
    case ValueType::size:
      return {{"anyOf", {{{"type", "number"}, {"minimum", 0}}, {{"type", "string"}, {"pattern", "^\\s*[0-9]"}}}}};
    case ValueType::mode:
      return {{"anyOf", {{{"type", "integer"}}, {{"type", "string"}, {"pattern", "^(0o)?[0-7]{1,5}$"}}}}};
    case ValueType::any:
      break;
  }
  return Value::object();
}

Value fields_schema(const std::vector<InputSpec>& specs);

Value input_schema(const InputSpec& spec) {
  Value typed = type_schema(spec.type);
  if (!spec.one_of.empty()) typed = {{"enum", spec.one_of}};
  if (!spec.fields.empty()) typed = fields_schema(spec.fields);
  Value out = typed.empty() ? typed : Value{{"anyOf", {typed, kExpression, {{"type", "null"}}}}};
  if (!spec.doc.empty()) out["description"] = spec.doc;
  if (!spec.default_value.is_null() && spec.secrecy == Secrecy::open) out["default"] = spec.default_value;
  return out;
}

Value fields_schema(const std::vector<InputSpec>& specs) {
  Value properties = Value::object();
  Value required = Value::array();
  for (const InputSpec& spec : specs) {
    properties[spec.name] = input_schema(spec);
    if (spec.need == Need::required) required.push_back(spec.name);
  }
  return {{"type", "object"}, {"properties", properties}, {"required", required}, {"additionalProperties", false}};
}

// The rule for one step kind: if `uses` says so, `with` looks so.
Value kind_rule(const Signature& signature) {
  Value with = reference("kind:" + signature.kind);
  Value then = {{"properties", {{"with", with}}}};
  bool needs_with = false;
  for (const InputSpec& spec : signature.inputs) needs_with = needs_with || spec.need == Need::required;
  if (needs_with) then["required"] = {"with"};
  return {{"if", {{"properties", {{"uses", {{"const", signature.kind}}}}}, {"required", {"uses"}}}}, {"then", then}};
}

Value kind_schema(const Signature& signature) {
  Value mapping = fields_schema(signature.inputs);
  if (mapping["required"].empty()) mapping["type"] = {"object", "null"};
  mapping["description"] = signature.summary;
  const InputSpec* positional = signature.find_input(signature.positional);
  if (positional == nullptr) return mapping;
  return {{"anyOf", {mapping, {{"type", {"string", "number", "boolean"}}, {"description", positional->doc}}}}};
}

Value object_schema(Value properties, Value required = Value::array()) {
  return {{"type", "object"},
          {"properties", std::move(properties)},
          {"required", std::move(required)},
          {"additionalProperties", false}};
}

Value described(Value schema, const char* text) {
  schema["description"] = text;
  return schema;
}

Value need_schema() {
  const Value across = object_schema({{"step", {{"type", "string"}}}, {"on", {{"const", "all"}}}}, {"step"});
  return {{"anyOf", {{{"type", "string"}}, across}}};
}

Value handler_schema() {
  const Value remedy = object_schema({{"do", {{"const", "remedy"}}},
                                      {"attempts", {{"type", "integer"}, {"minimum", 1}}},
                                      {"within", reference("duration")}},
                                     {"do"});
  return {{"anyOf", {remedy, object_schema({{"do", {{"const", "rollback"}}}}, {"do"})}}};
}

Value lock_schema() {
  return object_schema(
      {{"name", {{"type", "string"}}},
       {"count", {{"type", "integer"}, {"minimum", 1}, {"description", "So many at once; 1 if absent."}}},
       {"on", {{"const", "all"}, {"description", "Counted over all hosts, not on each node."}}}},
      {"name"});
}

Value step_schema(const StepRegistry& registry) {
  const Value text = {{"type", "string"}, {"minLength", 1}};
  const Value name = {{"type", "string"}, {"pattern", "^[A-Za-z_][A-Za-z0-9_-]*$"}};
  Value id = name;
  id["maxLength"] = 100;
  const Value retry = object_schema({{"times", {{"type", "integer"}, {"minimum", 0}}},
                                     {"delay", reference("duration")},
                                     {"backoff", {{"type", "number"}, {"minimum", 1}}}},
                                    {"times"});
  Value step = object_schema(
      {{"id", described(id, "The name that other steps know it by.")},
       {"name", described(text, "For people.")},
       {"uses", {{"enum", registry.names()}, {"description", "The step kind."}}},
       {"with", {{"description", "What the step kind takes."}}},
       {"needs", described({{"anyOf", {{{"type", "array"}, {"items", reference("need")}}, reference("need")}}},
                           "The steps to wait for. Without it: the step before. []: none.")},
       {"in", described(text, "The step whose node (container) it runs in.")},
       {"when", {{"type", {"string", "boolean", "number"}}, {"description", "Run only if this expression is true."}}},
       {"foreach",
        described({{"anyOf", {{{"type", "array"}}, kExpression}}}, "Once for each item: {{ item }}, {{ index }}.")},
       {"register", described(name, "Another name for its outputs.")},
       {"tags", {{"type", {"array", "string"}}, {"items", {{"type", "string"}}}}},
       {"retry",
        described({{"anyOf", {{{"type", "integer"}, {"minimum", 0}}, retry}}}, "Further attempts after a failure.")},
       {"timeout", reference("duration")},
       {"lock", described({{"anyOf", {text, lock_schema()}}}, "Steps with the same lock do not run side by side.")},
       {"ignore_failure", {{"type", "boolean"}}},
       {"become", {{"type", "boolean"}, {"description", "Run as root, whatever the host says."}}},
       {"on_failure", {{"type", "array"}, {"items", reference("handler")}}}},
      {"uses"});
  Value rules = Value::array();
  for (const std::string& kind : registry.names()) rules.push_back(kind_rule(registry.find(kind)->signature()));
  if (!rules.empty()) step["allOf"] = std::move(rules);
  const Value include = object_schema(
      {{"include", described(text, "A file whose steps stand here; relative to this file.")}}, {"include"});
  return {{"if", {{"required", {"include"}}}}, {"then", include}, {"else", step}};
}

Value playbook_input_schema() {
  const Value types = {"string", "integer", "number", "boolean", "list", "mapping", "duration", "size", "mode", "any"};
  return object_schema({{"type", {{"enum", types}}},
                        {"doc", {{"type", "string"}}},
                        {"default", {{"description", "The value when none is given."}}},
                        {"required", {{"type", "boolean"}}},
                        {"secret", {{"type", "boolean"}, {"description", "Never shown."}}},
                        {"one_of", {{"type", {"array", "string"}}, {"items", {{"type", {"string", "number"}}}}}}});
}

}  // namespace

Value playbook_schema(const StepRegistry& registry) {
  const Value amount = {
      {"anyOf",
       {{{"type", "integer"}, {"minimum", 0}}, {{"type", "string"}, {"pattern", "^([0-9]|[1-9][0-9]|100)%$"}}}}};
  const Value batch = {{"anyOf", {amount, {{"type", "array"}, {"items", amount}, {"minItems", 1}}}}};
  const Value strategy =
      object_schema({{"canary", {{"type", "integer"}, {"minimum", 0}, {"description", "So many hosts first, alone."}}},
                     {"batch", described(batch, "Then so many at a time; of a list, the last again and again.")},
                     {"max_failures", described(amount, "No further batch after more failed hosts than this.")},
                     {"order",
                      {{"enum", {"inventory", "reverse_inventory", "sorted", "reverse_sorted", "shuffle"}},
                       {"description", "Of the hosts; inventory if absent."}}}});
  Value names = {{"pattern", "^[A-Za-z_][A-Za-z0-9_-]*$"}};
  Value schema = object_schema(
      {{"name", {{"type", "string"}}},
       {"hosts", {{"type", {"string", "array"}}, {"items", {{"type", "string"}}}}},
       {"inputs",
        {{"type", {"object", "null"}}, {"propertyNames", names}, {"additionalProperties", reference("input")}}},
       {"vars", {{"type", {"object", "null"}}, {"propertyNames", names}}},
       {"strategy", strategy},
       {"steps", {{"type", "array"}, {"items", reference("step")}}}},
      {"hosts", "steps"});
  schema["$schema"] = "https://json-schema.org/draft/2020-12/schema";
  schema["title"] = "millwright playbook";
  Value& defs = schema["$defs"];
  defs["step"] = step_schema(registry);
  defs["need"] = need_schema();
  defs["handler"] = handler_schema();
  defs["input"] = playbook_input_schema();
  defs["duration"] = type_schema(ValueType::duration);
  defs["duration"]["description"] = "90s, 1.5m, 2h, 1h30m; a bare number is seconds.";
  for (const std::string& kind : registry.names()) {
    defs["kind:" + kind] = kind_schema(registry.find(kind)->signature());
  }
  return schema;
}

}  // namespace millwright
