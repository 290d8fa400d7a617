// gpu.check: do the GPUs of a host work?
#pragma once

#include "orchestrator/base/knowledge.hpp"
#include "steps/contract/step.hpp"

namespace millwright {

class GpuCheckStep final : public StepKind {
 public:
  explicit GpuCheckStep(Knowledge knowledge) : knowledge_(std::move(knowledge)) {}
  const Signature& signature() const override;
  std::vector<Question> ask(const Inputs& inputs) const override;
  Result<Change> plan(const Inputs& inputs, const Answers& answers) const override;

 private:
  Knowledge knowledge_;
};

}  // namespace millwright
