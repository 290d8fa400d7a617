#include "orchestrator/journal/memory_journal.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "orchestrator/journal/rows.hpp"

namespace millwright {

Result<MemoryJournal::Run*> MemoryJournal::writable(const std::string& run) {
  if (broken_) return fail(*broken_);
  const auto it = runs_.find(run);
  if (it == runs_.end()) return fail(ErrorKind::io, "the journal knows no run " + run);
  return &it->second;
}

Result<void> MemoryJournal::begin_run(const RunRecord& run) {
  const Lock guard(mutex_);
  if (broken_) return fail(*broken_);
  if (runs_.count(run.id) != 0) return fail(ErrorKind::io, "the journal has a run " + run.id + " already");
  runs_[run.id].record = run;
  return {};
}

Result<void> MemoryJournal::finish_run(const std::string& run, int exit_code, const std::string& sentence,
                                       TimePoint when) {
  const Lock guard(mutex_);
  Result<Run*> entry = writable(run);
  if (!entry) return fail(entry.error());
  RunRecord& record = (*entry)->record;
  record.finished = when;
  record.exit_code = exit_code;
  record.sentence = sentence;
  return {};
}

Result<std::optional<RunRecord>> MemoryJournal::find_run(const std::string& wanted) {
  if (wanted.empty() || wanted == "last") {
    Result<std::vector<RunRecord>> newest = runs(1);
    if (!newest || newest->empty()) return std::optional<RunRecord>();
    return std::optional<RunRecord>(newest->front());
  }
  const Lock guard(mutex_);
  std::vector<RunRecord> found;
  for (const auto& [id, run] : runs_) {
    if (id.compare(0, wanted.size(), wanted) == 0) found.push_back(run.record);
  }
  return pick_run(std::move(found), wanted);
}

Result<std::vector<RunRecord>> MemoryJournal::runs(std::size_t newest) {
  const Lock guard(mutex_);
  std::vector<RunRecord> all;
  for (const auto& [id, run] : runs_) all.push_back(run.record);
  std::sort(all.begin(), all.end(), [](const RunRecord& a, const RunRecord& b) {
    return a.started != b.started ? a.started > b.started : a.id > b.id;
  });
  if (all.size() > newest) all.resize(newest);
  return all;
}

Result<std::uint64_t> MemoryJournal::append(const Event& event) {
  const Lock guard(mutex_);
  Result<Run*> run = writable(event.run);
  if (!run) return fail(run.error());
  Event numbered = event;
  numbered.seq = (*run)->events.size() + 1;
  (*run)->events.push_back(numbered);
  return numbered.seq;
}

Result<std::vector<Event>> MemoryJournal::events(const std::string& run) {
  const Lock guard(mutex_);
  const auto it = runs_.find(run);
  return it == runs_.end() ? std::vector<Event>() : it->second.events;
}

Result<void> MemoryJournal::put_step(const std::string& run, const StepRecord& step) {
  const Lock guard(mutex_);
  Result<Run*> entry = writable(run);
  if (!entry) return fail(entry.error());
  for (StepRecord& known : (*entry)->steps) {
    if (known.host == step.host && known.step == step.step) {
      known = step;
      return {};
    }
  }
  (*entry)->steps.push_back(step);
  return {};
}

Result<std::vector<StepRecord>> MemoryJournal::steps(const std::string& run) {
  const Lock guard(mutex_);
  const auto it = runs_.find(run);
  return it == runs_.end() ? std::vector<StepRecord>() : it->second.steps;
}

Result<std::uint64_t> MemoryJournal::add_undo(const std::string& run, const UndoRecord& undo) {
  Result<std::vector<std::uint64_t>> seqs = add_undos(run, {undo});
  if (!seqs) return fail(seqs.error());
  return seqs->front();
}

Result<std::vector<std::uint64_t>> MemoryJournal::add_undos(const std::string& run,
                                                            const std::vector<UndoRecord>& undos) {
  const Lock guard(mutex_);
  Result<Run*> entry = writable(run);
  if (!entry) return fail(entry.error());
  std::vector<std::uint64_t> seqs;
  for (const UndoRecord& undo : undos) {
    UndoRecord numbered = undo;
    numbered.seq = (*entry)->undos.size() + 1;
    numbered.remote_dir = replace_seq(undo.remote_dir, numbered.seq);
    (*entry)->undos.push_back(numbered);
    seqs.push_back(numbered.seq);
  }
  return seqs;
}

Result<void> MemoryJournal::set_undo_state(const std::string& run, std::uint64_t seq, UndoState state) {
  const Lock guard(mutex_);
  Result<Run*> entry = writable(run);
  if (!entry) return fail(entry.error());
  std::vector<UndoRecord>& undos = (*entry)->undos;
  if (seq == 0 || seq > undos.size()) {
    return fail(ErrorKind::io, fmt::format("run {} has no undo record {}", run, seq));
  }
  UndoRecord& undo = undos[seq - 1];
  undo.state = state;
  if (state == UndoState::done && undo.completed == 0) {
    for (const UndoRecord& other : undos) undo.completed = std::max(undo.completed, other.completed);
    ++undo.completed;
  }
  return {};
}

Result<std::vector<UndoRecord>> MemoryJournal::undos(const std::string& run) {
  const Lock guard(mutex_);
  const auto it = runs_.find(run);
  return it == runs_.end() ? std::vector<UndoRecord>() : it->second.undos;
}

Result<void> MemoryJournal::lock(const LockRecord& lock) {
  const Lock guard(mutex_);
  const auto it = locks_.find(lock.name);
  if (it != locks_.end() && it->second.holder != lock.holder) return fail(lock_held(it->second));
  locks_[lock.name] = lock;
  return {};
}

Result<void> MemoryJournal::unlock(const std::string& name, const std::string& holder) {
  const Lock guard(mutex_);
  const auto it = locks_.find(name);
  if (it != locks_.end() && it->second.holder == holder) locks_.erase(it);
  return {};
}

Result<std::vector<LockRecord>> MemoryJournal::locks() {
  const Lock guard(mutex_);
  std::vector<LockRecord> all;
  for (const auto& [name, lock] : locks_) all.push_back(lock);
  return all;
}

Result<EvidenceRecord> MemoryJournal::keep(const std::string& run, const std::string& host, const std::string& step,
                                           const std::string& name, std::string_view bytes) {
  const Lock guard(mutex_);
  Result<Run*> entry = writable(run);
  if (!entry) return fail(entry.error());
  EvidenceRecord record{run, host, step, name, {}, bytes.size()};
  const std::size_t number = (*entry)->evidence.size() + 1;
  record.path = fmt::format("memory/{}/{}/{}/{}-{}", run, host, step, number, name);
  (*entry)->evidence.push_back(record);
  bytes_[record.path] = std::string(bytes);
  return record;
}

Result<std::vector<EvidenceRecord>> MemoryJournal::evidence(const std::string& run) {
  const Lock guard(mutex_);
  const auto it = runs_.find(run);
  return it == runs_.end() ? std::vector<EvidenceRecord>() : it->second.evidence;
}

std::string MemoryJournal::bytes_of(const std::string& path) const {
  const Lock guard(mutex_);
  const auto it = bytes_.find(path);
  return it == bytes_.end() ? std::string() : it->second;
}

void MemoryJournal::fail_writes(Error error) {
  const Lock guard(mutex_);
  broken_ = std::move(error);
}

}  // namespace millwright
