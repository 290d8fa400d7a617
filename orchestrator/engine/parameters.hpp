// What the journal keeps of a run to go on with it: hosts, inputs, options. Secrets are not kept.
#pragma once

#include <string>
#include <vector>

#include "orchestrator/engine/engine.hpp"

namespace millwright {

struct RunParameters {
  Value inputs = Value::object();
  std::vector<PlayHost> hosts;
  RunOptions options;
};

// Redacted; passwords are left out altogether.
Value parameters_value(const RunParameters& parameters);

// Back again, with `today`'s refreshed hosts and inputs put in wherever a secret was left out. Errors (invalid): the
// record is not understood, or a secret is missing and `today` does not have it either.
Result<RunParameters> parameters_of(const Value& value, const RunOptions& today);

// Whether the inputs are whole: those that were secret are not in the journal, and must be given once more to go on
// with a run. Taking one back needs none.
Result<void> inputs_known(const Value& inputs);

}  // namespace millwright
