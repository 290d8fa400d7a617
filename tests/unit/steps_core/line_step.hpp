// The worked example of docs/how-to-add-a-step-kind.md: a line is in a file.
#pragma once

#include "steps/contract/step.hpp"

namespace millwright {

class LineStep final : public StepKind {
 public:
  const Signature& signature() const override;
  std::vector<Question> ask(const Inputs& inputs) const override;
  Result<Change> plan(const Inputs& inputs, const Answers& answers) const override;
  std::vector<Expectation> expect(const Inputs& inputs, const Answers& answers, const Change& change) const override;
};

}  // namespace millwright
