// The tables of the journal, and what it takes to accept a database as one.
#pragma once

#include <string>

#include "orchestrator/base/error.hpp"
#include "orchestrator/journal/database.hpp"

namespace millwright {

inline constexpr std::int64_t kJournalApplicationId = 0x6d696c6c;  // "mill"
inline constexpr std::int64_t kJournalSchemaVersion = 1;

// Makes the tables in an empty database; refuses (io) one that is something else or of a newer version.
Result<void> ensure_schema(Database& database, const std::string& path);

}  // namespace millwright
