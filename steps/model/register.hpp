// The step kinds of this folder: model.
#pragma once

namespace millwright {

class StepRegistry;
void register_model_steps(StepRegistry& registry);

}  // namespace millwright
