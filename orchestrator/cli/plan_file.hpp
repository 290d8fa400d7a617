// Saved plans: `plan --out FILE` and `apply FILE`.
#pragma once

#include <string>

#include "orchestrator/cli/play.hpp"
#include "orchestrator/cli/step_kinds.hpp"

namespace millwright {

// Told from a playbook by what is in the file.
bool names_plan_file(const std::string& path);

// Plans, shows it, and writes it: mode 0600, without secrets. Nothing is written when a host could not be planned.
int write_plan_file(const Session& session, const StepKinds& kinds, const PlayOptions& options, const Play& play);

// Asks everything again, and does the plan if every answer is what it was; otherwise says which is not (exit code 8),
// and nothing is touched. With `options.check` it only says whether the plan still holds.
int apply_plan_file(const Session& session, const StepKinds& kinds, const PlayOptions& options);

}  // namespace millwright
