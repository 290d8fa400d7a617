// template: a file whose text is rendered from a template of the controller.
#pragma once

#include "steps/contract/step.hpp"

namespace millwright {

class TemplateStep final : public StepKind {
 public:
  const Signature& signature() const override;
  std::vector<Error> check(const Inputs& inputs) const override;
  std::vector<Question> ask(const Inputs& inputs) const override;
  Result<Change> plan(const Inputs& inputs, const Answers& answers) const override;
  std::vector<Expectation> expect(const Inputs& inputs, const Answers& answers, const Change& change) const override;
};

}  // namespace millwright
