// Runs of the journal, as the verbs that look back show them.
#pragma once

#include <string>

#include "orchestrator/cli/session.hpp"
#include "orchestrator/journal/journal.hpp"

namespace millwright {

// The run that a whole id, the beginning of one, or "last" names; an error with a hint when there is none.
Result<RunRecord> find_run(Journal& journal, const std::string& name);

// The same among runs that did something: "last" is not a plan, a drift or a verify.
Result<RunRecord> find_applied_run(Journal& journal, const std::string& name);

// "done", "failed", "rolled back"... or "not finished": killed, or running still.
std::string run_outcome(const RunRecord& run);

Value run_json(const RunRecord& run);

}  // namespace millwright
