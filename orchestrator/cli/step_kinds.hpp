// Knowledge and step kinds, as the verbs need them.
#pragma once

#include <vector>

#include "orchestrator/base/knowledge.hpp"
#include "orchestrator/cli/session.hpp"
#include "steps/contract/step.hpp"

namespace millwright {

struct StepKinds {
  Knowledge knowledge;
  StepRegistry registry;
};

// Loads the shipped knowledge and what $MILLWRIGHT_KNOWLEDGE adds, and registers all step kinds.
tl::expected<StepKinds, std::vector<Error>> load_step_kinds(const Session& session);

}  // namespace millwright
