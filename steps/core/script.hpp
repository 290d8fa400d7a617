// script: a script of the controller, or inline text, run on the node from a private temporary folder.
#pragma once

#include "steps/contract/step.hpp"

namespace millwright {

class ScriptStep final : public StepKind {
 public:
  const Signature& signature() const override;
  std::vector<Error> check(const Inputs& inputs) const override;
  std::vector<Question> ask(const Inputs& inputs) const override;
  Result<Change> plan(const Inputs& inputs, const Answers& answers) const override;
  std::vector<Expectation> expect(const Inputs& inputs, const Answers& answers, const Change& change) const override;
  Result<Value> outputs(const Inputs& inputs, const Answers& answers,
                        const std::vector<ActionResult>& results) const override;
};

}  // namespace millwright
