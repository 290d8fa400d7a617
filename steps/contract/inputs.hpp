// Typed access to inputs that check_inputs has already validated and defaulted. Asking for a name that the signature
// lacks, or for the wrong type, is a bug in the step kind and throws std::logic_error.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "orchestrator/base/clock.hpp"
#include "orchestrator/base/value.hpp"

namespace millwright {

class Inputs {
 public:
  explicit Inputs(Value values) : values_(std::move(values)) {}

  bool has(std::string_view name) const;  // present and not null
  std::string string(std::string_view name) const;
  std::string string_or(std::string_view name, std::string_view otherwise) const;
  std::int64_t integer(std::string_view name) const;
  double number(std::string_view name) const;
  bool boolean(std::string_view name) const;
  Milliseconds duration(std::string_view name) const;
  std::uint64_t size(std::string_view name) const;
  std::vector<std::string> strings(std::string_view name) const;  // absent: empty; a scalar: one element
  const Value& value(std::string_view name) const;                // absent: null
  const Value& all() const { return values_; }

 private:
  Value values_;
};

}  // namespace millwright
