// gpu.facts: looks at the GPUs of a host and changes nothing.
#pragma once

#include "orchestrator/base/knowledge.hpp"
#include "steps/contract/step.hpp"

namespace millwright {

class GpuFactsStep final : public StepKind {
 public:
  explicit GpuFactsStep(Knowledge knowledge) : knowledge_(std::move(knowledge)) {}
  const Signature& signature() const override;
  std::vector<Question> ask(const Inputs& inputs) const override;
  Result<Change> plan(const Inputs& inputs, const Answers& answers) const override;

 private:
  Knowledge knowledge_;
};

}  // namespace millwright
