#include "orchestrator/journal/database.hpp"

#include <sqlite3.h>
#include <unistd.h>

namespace millwright {

namespace {

// How often, and how many times, to look whether another process has ended its turn: 10 s in all. Often, since turns
// are short and come one after the other.
constexpr int busy_microseconds = 500;
constexpr int busy_looks = 20'000;

int wait_for_turn(void*, int looks) {
  if (looks >= busy_looks) return 0;
  usleep(busy_microseconds);
  return 1;
}

Error database_error(sqlite3* handle, int code) {
  const std::string message = handle != nullptr ? sqlite3_errmsg(handle) : sqlite3_errstr(code);
  switch (code & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return make_error(ErrorKind::busy, "the journal is being written by another process: " + message);
    case SQLITE_NOTADB:
    case SQLITE_CORRUPT:
      return make_error(ErrorKind::io, "the journal is damaged or is no journal: " + message);
    case SQLITE_FULL:
      return make_error(ErrorKind::io, "no space left for the journal: " + message);
    default:
      return make_error(ErrorKind::io, "journal: " + message);
  }
}

}  // namespace

Statement::~Statement() {
  if (statement_ == nullptr) return;
  sqlite3_reset(statement_);
  sqlite3_clear_bindings(statement_);
}

Statement& Statement::bind(int index, std::string_view text) {
  sqlite3_bind_text64(statement_, index, text.data(), text.size(), SQLITE_TRANSIENT, SQLITE_UTF8);
  return *this;
}

Statement& Statement::bind(int index, std::int64_t number) {
  sqlite3_bind_int64(statement_, index, number);
  return *this;
}

Statement& Statement::bind_null(int index) {
  sqlite3_bind_null(statement_, index);
  return *this;
}

Result<bool> Statement::step() {
  const int code = sqlite3_step(statement_);
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  return fail(database_error(database_, code));
}

Result<void> Statement::run() {
  while (true) {
    const Result<bool> row = step();
    if (!row) return fail(row.error());
    if (!*row) return {};
  }
}

std::string Statement::text(int column) const {
  const unsigned char* bytes = sqlite3_column_text(statement_, column);
  if (bytes == nullptr) return {};
  return std::string(reinterpret_cast<const char*>(bytes),
                     static_cast<std::size_t>(sqlite3_column_bytes(statement_, column)));
}

std::int64_t Statement::number(int column) const { return sqlite3_column_int64(statement_, column); }

bool Statement::is_null(int column) const { return sqlite3_column_type(statement_, column) == SQLITE_NULL; }

Result<std::unique_ptr<Database>> Database::open(const std::string& path) {
  sqlite3* handle = nullptr;
  const int code =
      sqlite3_open_v2(path.c_str(), &handle, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, nullptr);
  std::unique_ptr<Database> database(new Database(handle));
  if (code != SQLITE_OK) return fail(wrap(database_error(handle, code), "opening " + path));
  sqlite3_extended_result_codes(handle, 1);
  sqlite3_busy_handler(handle, wait_for_turn, nullptr);
  for (const char* pragma : {"PRAGMA journal_mode=WAL", "PRAGMA foreign_keys=ON", "PRAGMA synchronous=NORMAL"}) {
    if (Result<void> done = database->execute(pragma); !done) return fail(wrap(done.error(), "opening " + path));
  }
  return database;
}

Database::~Database() {
  for (const auto& [sql, statement] : statements_) sqlite3_finalize(statement);
  sqlite3_close(handle_);
}

Result<Statement> Database::prepare(const std::string& sql) {
  auto it = statements_.find(sql);
  if (it == statements_.end()) {
    sqlite3_stmt* statement = nullptr;
    const int code = sqlite3_prepare_v3(handle_, sql.c_str(), static_cast<int>(sql.size()), SQLITE_PREPARE_PERSISTENT,
                                        &statement, nullptr);
    if (code != SQLITE_OK) return fail(database_error(handle_, code));
    it = statements_.emplace(sql, statement).first;
  }
  return Statement(handle_, it->second);
}

Result<void> Database::execute(const char* sql) {
  const int code = sqlite3_exec(handle_, sql, nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) return fail(database_error(handle_, code));
  return {};
}

Result<std::int64_t> Database::scalar(const char* sql) {
  Result<Statement> statement = prepare(sql);
  if (!statement) return fail(statement.error());
  const Result<bool> row = statement->step();
  if (!row) return fail(row.error());
  return *row ? statement->number(0) : 0;
}

Result<void> Database::run(const std::string& sql) {
  Result<Statement> statement = prepare(sql);
  if (!statement) return fail(statement.error());
  return statement->run();
}

bool Database::in_transaction() const { return sqlite3_get_autocommit(handle_) == 0; }

std::int64_t Database::changes() const { return sqlite3_changes64(handle_); }

Result<Transaction> Transaction::begin(Database& database) {
  if (Result<void> begun = database.execute("BEGIN IMMEDIATE"); !begun) return fail(begun.error());
  return Transaction(&database);
}

Transaction::~Transaction() {
  if (database_ != nullptr) static_cast<void>(database_->execute("ROLLBACK"));
}

Result<void> Transaction::commit() {
  Result<void> done = database_->execute("COMMIT");
  if (done) database_ = nullptr;
  return done;
}

}  // namespace millwright
