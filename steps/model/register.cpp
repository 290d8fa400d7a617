#include "steps/model/register.hpp"

#include "steps/contract/step.hpp"
#include "steps/model/model_step.hpp"

namespace millwright {

void register_model_steps(StepRegistry& registry) { registry.add(std::make_unique<ModelStep>()); }

}  // namespace millwright
