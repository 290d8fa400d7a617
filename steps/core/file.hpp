// file: a file, folder or link is as wanted, or gone.
#pragma once

#include "steps/contract/step.hpp"

namespace millwright {

class FileStep final : public StepKind {
 public:
  const Signature& signature() const override;
  std::vector<Error> check(const Inputs& inputs) const override;
  std::vector<Question> ask(const Inputs& inputs) const override;
  Result<Change> plan(const Inputs& inputs, const Answers& answers) const override;
  std::vector<Expectation> expect(const Inputs& inputs, const Answers& answers, const Change& change) const override;
};

}  // namespace millwright
