#include "steps/gpu/register.hpp"

#include "steps/contract/step.hpp"
#include "steps/gpu/facts_step.hpp"

namespace millwright {

void register_gpu_steps(StepRegistry& registry, const Knowledge& knowledge) {
  registry.add(std::make_unique<GpuFactsStep>(knowledge));
}

}  // namespace millwright
