// `!secret` references of a playbook, resolved when a step first needs them.
#pragma once

#include <map>
#include <string>

#include "orchestrator/base/mutex.hpp"
#include "orchestrator/playbook/playbook.hpp"
#include "orchestrator/playbook/template.hpp"

namespace millwright {

// A scope without names that knows secrets only. Each reference is resolved once a run, however many hosts and
// questions read it: a command of a password store may ask a person. Safe for concurrent use.
class RunSecrets final : public Scope {
 public:
  const Value* find(std::string_view) const override { return nullptr; }
  std::vector<std::string> names() const override { return {}; }
  // Registers the value with the redactor. Errors: those of resolve_secret.
  Result<Value> secret(const std::string& reference, const SourceMark& mark) const override;

 private:
  mutable Mutex mutex_;
  mutable std::map<std::string, std::string> known_ MW_GUARDED_BY(mutex_);
};

// Makes the redactor hide the values of a playbook's inputs that are marked `secret: true`: before anything of the run
// is written or shown.
void hide_secret_inputs(const Playbook& playbook, const Value& inputs);

// The inputs with "[secret]" in place of each secret one, whatever its type.
Value without_secret_inputs(const Playbook& playbook, Value inputs);

}  // namespace millwright
