// service: a systemd unit runs or not, now and at boot.
#pragma once

#include "steps/contract/step.hpp"

namespace millwright {

class ServiceStep final : public StepKind {
 public:
  const Signature& signature() const override;
  std::vector<Error> check(const Inputs& inputs) const override;
  std::vector<Question> ask(const Inputs& inputs) const override;
  Result<Change> plan(const Inputs& inputs, const Answers& answers) const override;
};

}  // namespace millwright
