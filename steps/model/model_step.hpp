// The model step: puts a model file on the node, whole and verified.
#pragma once

#include "steps/contract/drift.hpp"
#include "steps/contract/step.hpp"

namespace millwright {

class ModelStep final : public ActiveStep, public TellsDrift {
 public:
  const Signature& signature() const override;
  std::vector<Error> check(const Inputs& inputs) const override;
  Result<StepOutcome> run(StepContext& context) const override;
  std::vector<Question> preview_questions(const Inputs& inputs) const override;
  Result<std::string> preview(const Inputs& inputs, const Answers& answers) const override;
  std::optional<bool> drifted(const Inputs& inputs, const Answers& answers) const override;
};

}  // namespace millwright
