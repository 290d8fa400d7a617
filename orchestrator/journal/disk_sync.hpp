// Waits until the disk has what was written to a file; those who wait at the same time share one wait.
//
// Safe for concurrent use.
#pragma once

#include <cstdint>
#include <string>

#include "orchestrator/base/error.hpp"
#include "orchestrator/base/mutex.hpp"

namespace millwright {

class DiskSync {
 public:
  explicit DiskSync(std::string path) : path_(std::move(path)) {}
  ~DiskSync();
  DiskSync(const DiskSync&) = delete;
  DiskSync& operator=(const DiskSync&) = delete;

  // Returns when everything is on disk that was written to the file before the call. `ticket` counts writes: a caller
  // with a smaller or equal one than another's, who is already through, need not wait. Error: io.
  Result<void> reach(std::uint64_t ticket);

 private:
  Result<void> sync_now();

  const std::string path_;
  Mutex mutex_;
  Condition ended_;
  int file_ = -1;  // of whoever has `running_`
  bool running_ MW_GUARDED_BY(mutex_) = false;
  std::uint64_t wanted_ MW_GUARDED_BY(mutex_) = 0;
  std::uint64_t reached_ MW_GUARDED_BY(mutex_) = 0;
};

}  // namespace millwright
