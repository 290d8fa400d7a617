// The step kinds of this folder: smoke. And what else the program needs from it.
#pragma once

#include <memory>
#include <vector>

#include "orchestrator/base/error.hpp"
#include "steps/log/log_signs.hpp"

namespace millwright {

class Knowledge;
class StepRegistry;
struct SmokeRules;

// The smoke test's rules out of classes.yml and probes.yml; an error of kind invalid says what is wrong with them.
Result<std::shared_ptr<const SmokeRules>> load_smoke_rules(const Knowledge& knowledge);

void register_smoke_steps(StepRegistry& registry, std::shared_ptr<const SmokeRules> rules,
                          std::vector<LogSign> signs = {});

}  // namespace millwright
