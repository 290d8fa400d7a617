#include "orchestrator/journal/schema.hpp"

#include <fmt/format.h>

namespace millwright {

namespace {

constexpr const char* tables = R"sql(
CREATE TABLE runs(
  id TEXT PRIMARY KEY, verb TEXT NOT NULL, playbook_path TEXT NOT NULL, playbook_text TEXT NOT NULL,
  parameters TEXT NOT NULL, started INTEGER NOT NULL, finished INTEGER, exit_code INTEGER,
  sentence TEXT NOT NULL DEFAULT '') WITHOUT ROWID;
CREATE INDEX runs_by_start ON runs(started);
CREATE TABLE events(
  run TEXT NOT NULL REFERENCES runs(id), seq INTEGER NOT NULL, time INTEGER NOT NULL, type TEXT NOT NULL,
  host TEXT NOT NULL, step TEXT NOT NULL, data TEXT NOT NULL, PRIMARY KEY(run, seq)) WITHOUT ROWID;
CREATE TABLE steps(
  run TEXT NOT NULL REFERENCES runs(id), host TEXT NOT NULL, step TEXT NOT NULL, position INTEGER NOT NULL,
  state TEXT NOT NULL, inputs TEXT NOT NULL, outputs TEXT NOT NULL, PRIMARY KEY(run, host, step)) WITHOUT ROWID;
CREATE TABLE undos(
  run TEXT NOT NULL REFERENCES runs(id), seq INTEGER NOT NULL, host TEXT NOT NULL, node TEXT NOT NULL,
  step TEXT NOT NULL, title TEXT NOT NULL, undo_title TEXT NOT NULL, script TEXT NOT NULL, remote_dir TEXT NOT NULL,
  state TEXT NOT NULL, completed INTEGER NOT NULL, PRIMARY KEY(run, seq)) WITHOUT ROWID;
CREATE TABLE locks(
  name TEXT PRIMARY KEY, holder TEXT NOT NULL, why TEXT NOT NULL, since INTEGER NOT NULL,
  machine TEXT NOT NULL, boot TEXT NOT NULL, pid_namespace TEXT NOT NULL, pid INTEGER NOT NULL,
  start TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE evidence(
  id INTEGER PRIMARY KEY, run TEXT NOT NULL REFERENCES runs(id), host TEXT NOT NULL, step TEXT NOT NULL,
  name TEXT NOT NULL, path TEXT NOT NULL, bytes INTEGER NOT NULL);
CREATE INDEX evidence_by_run ON evidence(run);
)sql";

// What is asked with each record, so that a long run's last record costs what its first did. Journals that were made
// without them get them; older versions of the program do not mind.
constexpr const char* indexes = R"sql(
CREATE INDEX IF NOT EXISTS steps_by_position ON steps(run, position);
CREATE INDEX IF NOT EXISTS undos_by_completion ON undos(run, completed);
)sql";

Failure not_ours(const std::string& path, const std::string& what) {
  Error error = make_error(ErrorKind::io, fmt::format("{} {}", path, what));
  error.hint = "move it away, or point --state (or XDG_STATE_HOME) elsewhere";
  return fail(std::move(error));
}

Result<void> create(Database& database) {
  if (Result<void> made = database.execute(tables); !made) return made;
  const std::string marks =
      fmt::format("PRAGMA application_id={}; PRAGMA user_version={}", kJournalApplicationId, kJournalSchemaVersion);
  return database.execute(marks.c_str());
}

}  // namespace

Result<void> ensure_schema(Database& database, const std::string& path) {
  Result<Transaction> transaction = Transaction::begin(database);
  if (!transaction) return fail(transaction.error());
  const Result<std::int64_t> application = database.scalar("PRAGMA application_id");
  if (!application) return fail(application.error());
  const Result<std::int64_t> version = database.scalar("PRAGMA user_version");
  if (!version) return fail(version.error());
  const Result<std::int64_t> objects = database.scalar("SELECT count(*) FROM sqlite_master");
  if (!objects) return fail(objects.error());
  if (*objects == 0) {
    if (Result<void> made = create(database); !made) return made;
  } else if (*application != kJournalApplicationId) {
    return not_ours(path, "is a database of some other program");
  } else if (*version > kJournalSchemaVersion) {
    return not_ours(path, fmt::format("was written by a newer millwright (schema {}, this one knows up to {})",
                                      *version, kJournalSchemaVersion));
  } else if (*version != kJournalSchemaVersion) {
    return not_ours(path, fmt::format("has the unknown schema version {}", *version));
  }
  if (Result<void> made = database.execute(indexes); !made) return made;
  return transaction->commit();
}

}  // namespace millwright
