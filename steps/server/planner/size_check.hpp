// Figures of a model's files that no model has: whoever wrote the file may be anybody, and what is worked out from them
// would be nonsense with decimals.
//
// Pure; safe from any thread.
#pragma once

#include <string>

#include "orchestrator/base/error.hpp"
#include "steps/server/planner/gguf.hpp"
#include "steps/server/planner/weights.hpp"

namespace millwright::planner {

// All of them: invalid, with the file, the field and its value.
Result<void> check_config_numbers(const Value& config, const std::string& file);
Result<void> check_gguf_numbers(const GgufFile& header, const std::string& file);
// Bytes that `field` of the file says.
Result<void> check_bytes(double bytes, const std::string& file, const std::string& field);

}  // namespace millwright::planner
