// gpu.bind: which driver runs which GPUs, now and after a reboot.
#pragma once

#include "orchestrator/base/knowledge.hpp"
#include "steps/contract/step.hpp"

namespace millwright {

class GpuBindStep final : public StepKind {
 public:
  explicit GpuBindStep(Knowledge knowledge) : knowledge_(std::move(knowledge)) {}
  const Signature& signature() const override;
  std::vector<Error> check(const Inputs& inputs) const override;
  std::vector<Question> ask(const Inputs& inputs) const override;
  Result<Change> plan(const Inputs& inputs, const Answers& answers) const override;

 private:
  Knowledge knowledge_;
};

}  // namespace millwright
