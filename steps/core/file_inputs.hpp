// Inputs and outputs that `file` and `template` share. Pure functions; may be used from any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "steps/contract/step.hpp"
#include "steps/core/path_actions.hpp"

namespace millwright::core {

InputSpec path_input();
// mode, owner, group, parents, force, diff, undo_limit: appended.
void add_placing_inputs(std::vector<InputSpec>& inputs);
std::vector<OutputSpec> path_outputs();
Value path_output_values(const std::string& path, const PathState& state);

// Absolute, not the root, no "..", no newline.
void check_path_input(const Inputs& inputs, std::vector<Error>& errors);
// Without doubled and trailing slashes.
std::string tidy_path(std::string_view path);

}  // namespace millwright::core
