#include "orchestrator/engine/secrets.hpp"

#include "inventory/inventory.hpp"
#include "orchestrator/base/redact.hpp"

namespace millwright {

namespace {

constexpr const char* kHidden = "[secret]";  // as the redactor writes it

void hide(const Value& value) {
  if (value.is_structured()) {
    for (const Value& part : value) hide(part);
  } else if (value.is_string()) {
    redactor().add(value.get<std::string>());
  } else if (value.is_number()) {
    redactor().add(value.dump());
  }
}

bool is_secret(const InputDecl& input) { return input.spec.secrecy == Secrecy::secret; }

}  // namespace

void hide_secret_inputs(const Playbook& playbook, const Value& inputs) {
  for (const auto& [name, input] : playbook.inputs) {
    if (!is_secret(input)) continue;
    hide(input.spec.default_value);
    // What came back from the journal is hidden already, and must not hide the word itself.
    if (inputs.contains(name) && inputs[name] != kHidden) hide(inputs[name]);
  }
}

Value without_secret_inputs(const Playbook& playbook, Value inputs) {
  for (const auto& [name, input] : playbook.inputs) {
    // Nothing is no secret, and must not be asked for again.
    if (is_secret(input) && inputs.contains(name) && !inputs[name].is_null() && inputs[name] != "")
      inputs[name] = kHidden;
  }
  return inputs;
}

Result<Value> RunSecrets::secret(const std::string& reference, const SourceMark& mark) const {
  const Lock guard(mutex_);
  // A relative path means another file beside another playbook.
  const std::string key = mark.file + "\n" + reference;
  const auto found = known_.find(key);
  if (found != known_.end()) return Value(found->second);
  Result<std::string> value = resolve_secret(reference, mark);
  if (!value) return fail(value.error());
  known_.emplace(key, *value);
  return Value(std::move(*value));
}

}  // namespace millwright
