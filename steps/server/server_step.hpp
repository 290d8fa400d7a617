// The server step: environment, release, switch, watch.
#pragma once

#include "steps/contract/drift.hpp"
#include "steps/contract/step.hpp"
#include "steps/server/server_spec.hpp"

namespace millwright {

class ServerStep final : public ActiveStep, public TellsDrift {
 public:
  explicit ServerStep(Knowledge knowledge);
  const Signature& signature() const override { return signature_; }
  std::vector<Error> check(const Inputs& inputs) const override;
  Result<StepOutcome> run(StepContext& context) const override;
  std::vector<Question> preview_questions(const Inputs& inputs) const override;
  Result<std::string> preview(const Inputs& inputs, const Answers& answers) const override;
  std::optional<bool> drifted(const Inputs& inputs, const Answers& answers) const override;

 private:
  std::vector<Error> check_command(const Inputs& inputs) const;
  const tl::expected<Knowledge, std::vector<Error>>& flag_knowledge() const;
  Knowledge knowledge_;
  Signature signature_;
};

}  // namespace millwright
