// The step kinds of this folder: gpu.facts, gpu.bind, gpu.check, gpu.driver.
#pragma once

namespace millwright {

class Knowledge;
class StepRegistry;
void register_gpu_steps(StepRegistry& registry, const Knowledge& knowledge);

}  // namespace millwright
