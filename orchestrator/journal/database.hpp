// A thin layer over SQLite: errors as values, prepared statements kept, transactions that roll back by themselves.
//
// Not safe for concurrent use: the journal guards it with its mutex.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "orchestrator/base/error.hpp"

struct sqlite3;
struct sqlite3_stmt;

namespace millwright {

// A prepared statement in use; reset when it goes out of scope. Binding counts from 1, columns from 0.
class Statement {
 public:
  Statement(sqlite3* database, sqlite3_stmt* statement) : database_(database), statement_(statement) {}
  Statement(Statement&& other) noexcept : database_(other.database_), statement_(other.statement_) {
    other.statement_ = nullptr;
  }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;
  ~Statement();

  Statement& bind(int index, std::string_view text);
  Statement& bind(int index, std::int64_t number);
  Statement& bind_null(int index);
  Result<bool> step();  // true: there is a row
  Result<void> run();   // to the end, rows ignored
  std::string text(int column) const;
  std::int64_t number(int column) const;
  bool is_null(int column) const;

 private:
  sqlite3* database_;
  sqlite3_stmt* statement_;
};

class Database {
 public:
  static Result<std::unique_ptr<Database>> open(const std::string& path);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  Result<Statement> prepare(const std::string& sql);  // kept for the next time
  Result<void> execute(const char* sql);
  Result<void> run(const std::string& sql);  // one statement without rows, prepared once
  Result<std::int64_t> scalar(const char* sql);
  bool in_transaction() const;
  std::int64_t changes() const;

 private:
  explicit Database(sqlite3* handle) : handle_(handle) {}
  sqlite3* handle_;
  std::map<std::string, sqlite3_stmt*> statements_;
};

// BEGIN IMMEDIATE: the writer's turn is taken at once, so that what was read inside is still so when it is written.
class Transaction {
 public:
  static Result<Transaction> begin(Database& database);
  Transaction(Transaction&& other) noexcept : database_(other.database_) { other.database_ = nullptr; }
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;
  ~Transaction();  // rolls back unless committed
  Result<void> commit();

 private:
  explicit Transaction(Database* database) : database_(database) {}
  Database* database_;
};

}  // namespace millwright
