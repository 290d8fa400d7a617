#pragma once

#include <functional>
#include <string>

#include "orchestrator/cli/run_view.hpp"
#include "orchestrator/cli/session.hpp"
#include "orchestrator/cli/step_kinds.hpp"
#include "orchestrator/engine/engine.hpp"

namespace millwright {

// Makes everything that an engine needs, lets `work` use it, and turns what came of it into an exit code. Ctrl-C is the
// engine's while it runs. Afterwards the run's page is written, and named unless --json was asked for.
int run_engine(const Session& session, const StepKinds& kinds, Diffs diffs,
               const std::function<Result<RunSummary>(Engine&)>& work);
// The same with events to another sink as well, or instead of the view.
enum class Shown { yes, no };
int run_engine(const Session& session, const StepKinds& kinds, Diffs diffs, Shown shown, EventSink& also,
               const std::function<Result<RunSummary>(Engine&)>& work);

// Where the page and the evidence of a run are.
std::string run_folder(const Session& session, const std::string& run);

}  // namespace millwright
