// The JSON Schema of what `millwright fit --json` prints.
#pragma once

#include "orchestrator/base/value.hpp"

namespace millwright::planner {

// Draft 2020-12. Keys may be added without a new schema_version.
Value plan_schema();

}  // namespace millwright::planner
