// Values as block-style YAML that parse_yaml reads back to the same value. Internal to playbook/.
#pragma once

#include <string>

#include "orchestrator/base/value.hpp"

namespace millwright {

// Ends with a newline.
std::string emit_yaml(const Value& value);

}  // namespace millwright
