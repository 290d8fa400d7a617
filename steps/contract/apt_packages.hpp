// Packages of the node that a step of ours needs for itself (the core step `package` is for what the user wants).
#pragma once

#include <string>
#include <vector>

#include "steps/contract/change.hpp"

namespace millwright {

// Shell that prints those of `packages` that are not installed, one a line.
std::string missing_packages_script(const std::vector<std::string>& packages);
// Installs them without recommended ones, waiting for another apt. Undo removes those that were not there before, with
// what came along automatically since.
Action install_packages_action(const std::vector<std::string>& packages);

}  // namespace millwright
