// The journal that the program uses: one SQLite database (WAL) and a folder of evidence in a directory of the user's.
#pragma once

#include <memory>
#include <string>

#include "orchestrator/journal/journal.hpp"

namespace millwright {

// Opens or makes `directory` (0700), `journal.db` (0600) and `evidence/` in it. Several processes may have the same
// directory open: writers take turns, waiting up to 10 s for each other (then: busy).
//
// Everything is on disk when a call returns, except step_output and step_progress events: those survive the death of
// the process, but the last few may be lost with the power.
//
// Errors: io when the directory cannot be made or written, when the database is damaged, is not a journal, or was
// written by a newer millwright; the message says which, the hint what to do.
Result<std::unique_ptr<Journal>> open_sqlite_journal(const std::string& directory);

}  // namespace millwright
