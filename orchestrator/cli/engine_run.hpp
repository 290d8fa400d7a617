#pragma once

#include <functional>

#include "orchestrator/cli/run_view.hpp"
#include "orchestrator/cli/session.hpp"
#include "orchestrator/cli/step_kinds.hpp"
#include "orchestrator/engine/engine.hpp"

namespace millwright {

// Makes everything that an engine needs, lets `work` use it, and turns what came of it into an exit code. Ctrl-C is the
// engine's while it runs.
int run_engine(const Session& session, const StepKinds& kinds, Diffs diffs,
               const std::function<Result<RunSummary>(Engine&)>& work);

}  // namespace millwright
