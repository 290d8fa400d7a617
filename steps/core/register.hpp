// The core step kinds: command script file template package service reboot wait assert.
#pragma once

#include "steps/contract/step.hpp"

namespace millwright {

// Adds all core kinds. Throws std::logic_error when one of the names is taken: a bug at start-up.
void register_core_steps(StepRegistry& registry);

}  // namespace millwright
