// Step kind `smoke`: asks a served model, through a tunnel to its node, and judges the answers.
#pragma once

#include <memory>

#include "steps/contract/step.hpp"
#include "steps/log/log_signs.hpp"
#include "steps/smoke/rules.hpp"

namespace millwright {

// A failed test is an outcome with a verdict, not an error; errors are for a node that cannot be reached.
// Shell that records, in the current release of the server that answers at this endpoint of the node, that it has
// passed: the file `verified`, which `millwright releases` reads. Does nothing where there is no such server, or where
// this user may not write.
std::string mark_verified_script(const std::string& endpoint, const std::string& verdict, const std::string& at,
                                 const std::string& run);

class SmokeStep final : public ActiveStep {
 public:
  // `signs`: of all engines, for the log of a server that runs on the node.
  explicit SmokeStep(std::shared_ptr<const SmokeRules> rules, std::vector<LogSign> signs = {});
  const Signature& signature() const override { return signature_; }
  std::vector<Error> check(const Inputs& inputs) const override;
  Result<StepOutcome> run(StepContext& context) const override;

 private:
  std::shared_ptr<const SmokeRules> rules_;
  std::vector<LogSign> signs_;
  Signature signature_;
};

// "http://127.0.0.1:8080/v1" in its parts; the port defaults to 80 or 443.
struct EndpointParts {
  std::string scheme, host;
  int port = 0;
  std::string path;
};
Result<EndpointParts> split_endpoint(const std::string& url);

}  // namespace millwright
