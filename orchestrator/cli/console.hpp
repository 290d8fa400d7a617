#pragma once

#include "orchestrator/cli/session.hpp"

namespace millwright {

// The process's own standard streams. Writing to a pipe whose reader is gone ends the output, not the run.
Console standard_console();

}  // namespace millwright
