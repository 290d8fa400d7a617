// Many small records in few transactions, and one wait for the disk for all who wait at the same time.
//
// A record that nothing rests on yet joins an open transaction, which ends within kLongest, or when a record comes that
// has to last. So a kill or a power cut takes the newest records with it, never one that came before one that lasts.
//
// Safe for concurrent use. Other processes may write to the same database: none waits for longer than an open
// transaction lasts.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>

#include "orchestrator/base/mutex.hpp"
#include "orchestrator/journal/database.hpp"
#include "orchestrator/journal/disk_sync.hpp"

namespace millwright {

enum class Durability {
  full,     // on disk before the call returns, with all that came before it
  process,  // survives a kill of this process from then on, with all that came before it; a power cut may take it
  record,   // soon; told to the next call when it could not be kept
};

class Ledger {
 public:
  // `path`: of the database, whose log lies beside it.
  Ledger(std::unique_ptr<Database> database, const std::string& path);
  ~Ledger();  // commits what is open
  Ledger(const Ledger&) = delete;
  Ledger& operator=(const Ledger&) = delete;

  // Calls `work` with the database; sees everything that was written before. `work` returns a Result.
  template <class Work>
  auto read(Work work) {
    const Lock guard(mutex_);
    return work(*database_);
  }

  // Calls `work` within a transaction. When it fails it must have changed nothing (one statement, or a savepoint).
  // Errors: those of `work`, of the transaction, of the disk, and those that took earlier records away.
  template <class Work>
  auto write(Durability durability, Work work) -> std::invoke_result_t<Work, Database&> {
    using Outcome = std::invoke_result_t<Work, Database&>;
    std::uint64_t ticket = 0;
    std::optional<Outcome> outcome;
    {
      const Lock guard(mutex_);
      if (Result<void> ready = enter(); !ready) return Outcome(Failure(ready.error()));
      outcome = work(*database_);
      if (Result<void> left = leave(durability); !left) return Outcome(Failure(left.error()));
      ticket = commits_;
    }
    if (!*outcome || durability != Durability::full) return std::move(*outcome);
    if (Result<void> kept = disk_.reach(ticket); !kept) return Outcome(Failure(kept.error()));
    return std::move(*outcome);
  }

 private:
  Result<void> enter() MW_REQUIRES(mutex_);
  Result<void> leave(Durability durability) MW_REQUIRES(mutex_);
  Result<void> commit() MW_REQUIRES(mutex_);
  void end_in_time();

  Mutex mutex_;
  Condition changed_;
  std::unique_ptr<Database> database_ MW_GUARDED_BY(mutex_);
  std::uint64_t commits_ MW_GUARDED_BY(mutex_) = 0;
  bool open_ MW_GUARDED_BY(mutex_) = false;
  bool closing_ MW_GUARDED_BY(mutex_) = false;
  std::optional<Error> lost_ MW_GUARDED_BY(mutex_);  // why records are gone that nobody was told of yet
  std::chrono::steady_clock::time_point since_ MW_GUARDED_BY(mutex_);  // when the transaction began, or ended by time
  DiskSync disk_;
  std::thread timer_ MW_GUARDED_BY(mutex_);
};

}  // namespace millwright
