// reboot: restarts the node and comes back when it is up again.
#pragma once

#include "steps/contract/step.hpp"

namespace millwright {

class RebootStep final : public ActiveStep {
 public:
  const Signature& signature() const override;
  Result<StepOutcome> run(StepContext& context) const override;
  std::vector<Question> preview_questions(const Inputs& inputs) const override;
  Result<std::string> preview(const Inputs& inputs, const Answers& answers) const override;
};

}  // namespace millwright
