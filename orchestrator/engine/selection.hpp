// Which steps --tags, --skip-tags and --start-at leave out.
#pragma once

#include <set>
#include <string>

#include "orchestrator/engine/engine.hpp"
#include "orchestrator/engine/schedule.hpp"

namespace millwright {

// Positions of steps that do not run. A step whose node others run in is never left out while they run.
// invalid: --start-at names no step.
Result<std::set<std::size_t>> left_out(const Playbook& playbook, const StepOrder& order, const RunOptions& options);

// True when a step that runs reads outputs of this one.
bool is_read(const Playbook& playbook, std::size_t step, const std::set<std::size_t>& out);

}  // namespace millwright
