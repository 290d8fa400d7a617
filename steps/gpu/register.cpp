#include "steps/gpu/register.hpp"

#include "steps/contract/step.hpp"
#include "steps/gpu/bind_step.hpp"
#include "steps/gpu/check_step.hpp"
#include "steps/gpu/driver_step.hpp"
#include "steps/gpu/facts_step.hpp"

namespace millwright {

void register_gpu_steps(StepRegistry& registry, const Knowledge& knowledge) {
  registry.add(std::make_unique<GpuFactsStep>(knowledge));
  registry.add(std::make_unique<GpuBindStep>(knowledge));
  registry.add(std::make_unique<GpuCheckStep>(knowledge));
  registry.add(std::make_unique<GpuDriverStep>(knowledge));
}

}  // namespace millwright
