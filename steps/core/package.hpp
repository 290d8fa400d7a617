// package: packages of the distribution are installed, newest, of a version, or gone.
#pragma once

#include "steps/contract/step.hpp"

namespace millwright {

class PackageStep final : public StepKind {
 public:
  const Signature& signature() const override;
  std::vector<Error> check(const Inputs& inputs) const override;
  std::vector<Question> ask(const Inputs& inputs) const override;
  Result<Change> plan(const Inputs& inputs, const Answers& answers) const override;
};

}  // namespace millwright
