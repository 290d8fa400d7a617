// Packages of the node that a step of ours needs for itself (the core step `package` is for what the user wants).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "steps/contract/change.hpp"

namespace millwright {

// Shell that prints those of `packages` that are not installed, one a line.
std::string missing_packages_script(const std::vector<std::string>& packages);
// Installs them without recommended ones, waiting for another apt. Undo removes those that were not there before, with
// what came along automatically since.
Action install_packages_action(const std::vector<std::string>& packages);

// Shell function `mw_to_file COMMAND...`: runs it with its output in a file, which is followed meanwhile. When the
// controller dies, only the follower is hit by the broken pipe: apt would leave packages half installed.
std::string_view to_file_function();
// Shell that finishes what an apt that was cut off (the node lost power) left half configured. Needs nothing.
std::string_view finish_dpkg_script();

}  // namespace millwright
