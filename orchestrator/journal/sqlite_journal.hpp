// The journal that the program uses: one SQLite database (WAL) and a folder of evidence in a directory of the user's.
#pragma once

#include <memory>
#include <string>

#include "orchestrator/journal/journal.hpp"

namespace millwright {

// Opens or makes `directory` (0700), `journal.db` (0600) and `evidence/` in it. Several processes may have the same
// directory open: writers take turns, waiting up to 10 s for each other (then: busy).
//
// What a call recorded survives the death of the process from when it returns. On disk it is then only where something
// rests on it: begin_run, finish_run, add_undo, an undo taken back, lock, keep. A power cut loses what came after the
// last of these: what is left is what a kill at an earlier instant would have left, and no action began after that
// instant. So `resume` and `rollback` meet nothing new, and a step costs one wait for the disk instead of ten.
//
// Errors: io when the directory cannot be made or written, when the database is damaged, is not a journal, or was
// written by a newer millwright; the message says which, the hint what to do.
Result<std::unique_ptr<Journal>> open_sqlite_journal(const std::string& directory);

}  // namespace millwright
