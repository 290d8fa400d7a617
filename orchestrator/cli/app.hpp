// The command line: verbs, options, and what to say when it cannot be understood.
#pragma once

#include <string>
#include <vector>

#include "orchestrator/cli/session.hpp"

namespace millwright {

// Runs the verb that `arguments` (without the program's name) asks for; returns the exit code. A command line that
// cannot be understood is exit code 1.
int run_command_line(const std::vector<std::string>& arguments, const Wiring& wiring, Console& console);

}  // namespace millwright
