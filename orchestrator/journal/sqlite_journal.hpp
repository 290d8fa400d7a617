// The journal that the program uses: one SQLite database (WAL) and a folder of evidence in a directory of the user's.
#pragma once

#include <memory>
#include <string>

#include "orchestrator/journal/journal.hpp"

namespace millwright {

// Opens or makes `directory` (0700), `journal.db` (0600) and `evidence/` in it. Several processes may have the same
// directory open: writers take turns, waiting up to 10 s for each other (then: busy).
//
// On disk when the call returns is what something rests on: begin_run, finish_run, add_undo, an undo taken back, lock,
// keep; and with it all that came before. What became of steps and undo records survives a kill of the process; events
// are in the file within 30 ms. So a kill leaves all but the last events, and a power cut leaves what a kill at an
// earlier instant would have left; no action began after that instant, and `resume` and `rollback` meet nothing new. A
// step costs one wait for the disk instead of ten, and a thousand events a few transactions. An event that could not be
// kept after all is told by the next call.
//
// Errors: io when the directory cannot be made or written, when the database is damaged, is not a journal, or was
// written by a newer millwright; the message says which, the hint what to do.
Result<std::unique_ptr<Journal>> open_sqlite_journal(const std::string& directory);

}  // namespace millwright
