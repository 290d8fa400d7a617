// The dynamic value that playbooks, variables, inputs and outputs are made of.
#pragma once

#include <nlohmann/json.hpp>

namespace millwright {

// Mappings are ordered by key, so that everything rendered from them is stable.
using Value = nlohmann::json;

}  // namespace millwright
