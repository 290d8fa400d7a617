// Which change of inputs has cured which fault, on whichever host: a file of the controller beside its journal, so that
// what helped on one host is tried first on the next.
//
// Safe from any thread, and between processes: each change is made under a lock and takes the file's place whole.
#pragma once

#include <string>
#include <vector>

#include "orchestrator/base/clock.hpp"
#include "orchestrator/base/error.hpp"
#include "orchestrator/base/mutex.hpp"
#include "orchestrator/base/value.hpp"

namespace millwright {

// Once: this remedy, for this fault of this engine and model, and where.
struct WorkedRemedy {
  std::string symptom_class;
  std::string engine, version, model;  // as they were when it failed; empty: the step has no such input
  std::string remedy;                  // row of playbooks/knowledge/remedies.yml
  Value set = Value::object();         // the inputs that it changed
  std::string host;
  std::string at;  // ISO 8601, UTC

  bool operator==(const WorkedRemedy& other) const;
};

class RemedyMemory {
 public:
  // No file yet is a memory of nothing; it is made, readable by its owner alone, when there is something to remember.
  explicit RemedyMemory(std::string path) : path_(std::move(path)) {}

  // Oldest first. An error (io, or invalid for a damaged file) is nothing to stop for.
  Result<std::vector<WorkedRemedy>> worked(const std::string& symptom_class, const std::string& engine) const;
  // One that is known already becomes the newest; the oldest are dropped beyond kMost. A damaged file is moved aside as
  // PATH.damaged first.
  Result<void> remember(const std::vector<WorkedRemedy>& cured);

  static constexpr std::size_t kMost = 500;

 private:
  Result<std::vector<WorkedRemedy>> read() const;
  Result<void> write(const std::vector<WorkedRemedy>& rows) const;

  const std::string path_;
  mutable Mutex mutex_;
};

}  // namespace millwright
