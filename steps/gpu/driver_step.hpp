// gpu.driver: NVIDIA's driver from packages, for the kernel that runs and the one that boots next.
#pragma once

#include "orchestrator/base/knowledge.hpp"
#include "steps/contract/step.hpp"

namespace millwright {

class GpuDriverStep final : public StepKind {
 public:
  explicit GpuDriverStep(Knowledge knowledge) : knowledge_(std::move(knowledge)) {}
  const Signature& signature() const override;
  std::vector<Question> ask(const Inputs& inputs) const override;
  Result<Change> plan(const Inputs& inputs, const Answers& answers) const override;

 private:
  Knowledge knowledge_;
};

}  // namespace millwright
