// wait: until a port, a path, a command or a URL on the node is as wanted.
#pragma once

#include "steps/contract/step.hpp"

namespace millwright {

class WaitStep final : public ActiveStep {
 public:
  const Signature& signature() const override;
  std::vector<Error> check(const Inputs& inputs) const override;
  Result<StepOutcome> run(StepContext& context) const override;
};

}  // namespace millwright
