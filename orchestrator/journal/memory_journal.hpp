// A journal in memory, for tests: the same rules as the real one, nothing on disk, remembers evidence bytes.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "orchestrator/base/mutex.hpp"
#include "orchestrator/journal/journal.hpp"

namespace millwright {

class MemoryJournal final : public Journal {
 public:
  Result<void> begin_run(const RunRecord& run) override;
  Result<void> finish_run(const std::string& run, int exit_code, const std::string& sentence, TimePoint when) override;
  Result<std::optional<RunRecord>> find_run(const std::string& wanted) override;
  Result<std::vector<RunRecord>> runs(std::size_t newest) override;
  Result<std::uint64_t> append(const Event& event) override;
  Result<std::vector<Event>> events(const std::string& run) override;
  Result<void> put_step(const std::string& run, const StepRecord& step) override;
  Result<std::vector<StepRecord>> steps(const std::string& run) override;
  Result<std::uint64_t> add_undo(const std::string& run, const UndoRecord& undo) override;
  Result<std::vector<std::uint64_t>> add_undos(const std::string& run, const std::vector<UndoRecord>& undos) override;
  Result<void> set_undo_state(const std::string& run, std::uint64_t seq, UndoState state) override;
  Result<std::vector<UndoRecord>> undos(const std::string& run) override;
  // No process is ever dead here: a lock held by another holder is busy until it is unlocked.
  Result<void> lock(const LockRecord& lock) override;
  Result<void> unlock(const std::string& name, const std::string& holder) override;
  Result<std::vector<LockRecord>> locks() override;
  Result<EvidenceRecord> keep(const std::string& run, const std::string& host, const std::string& step,
                              const std::string& name, std::string_view bytes) override;
  Result<std::vector<EvidenceRecord>> evidence(const std::string& run) override;

  std::string bytes_of(const std::string& path) const;  // of a kept EvidenceRecord::path; empty when unknown
  // From now on every write fails with this error, as a full disk makes it.
  void fail_writes(Error error);

 private:
  struct Run {
    RunRecord record;
    std::vector<Event> events;
    std::vector<StepRecord> steps;
    std::vector<UndoRecord> undos;
    std::vector<EvidenceRecord> evidence;
  };
  Result<Run*> writable(const std::string& run) MW_REQUIRES(mutex_);

  mutable Mutex mutex_;
  std::map<std::string, Run> runs_ MW_GUARDED_BY(mutex_);
  std::map<std::string, LockRecord> locks_ MW_GUARDED_BY(mutex_);
  std::map<std::string, std::string> bytes_ MW_GUARDED_BY(mutex_);
  std::optional<Error> broken_ MW_GUARDED_BY(mutex_);
};

}  // namespace millwright
