// What an active step kind may offer besides (step.hpp): telling by a look whether what it left is still so.
#pragma once

#include <optional>

#include "steps/contract/change.hpp"
#include "steps/contract/inputs.hpp"

namespace millwright {

class TellsDrift {
 public:
  virtual ~TellsDrift() = default;
  // For drift and verify, from the answers to ActiveStep::preview_questions: whether it is no longer as an earlier run
  // left it. Nothing: the answers do not tell.
  virtual std::optional<bool> drifted(const Inputs& inputs, const Answers& answers) const = 0;
};

}  // namespace millwright
