// The step kinds of this folder: container.
#pragma once

namespace millwright {

class StepRegistry;
void register_container_steps(StepRegistry& registry);

}  // namespace millwright
