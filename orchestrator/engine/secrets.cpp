#include "orchestrator/engine/secrets.hpp"

#include "inventory/inventory.hpp"

namespace millwright {

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
