// How many hosts are worked on at once. A host that only waits for others gives its place away meanwhile, so that a
// cross-host edge cannot starve behind the limit.
#pragma once

#include "orchestrator/base/mutex.hpp"

namespace millwright {

// Safe for concurrent use.
class ForkLimit {
 public:
  explicit ForkLimit(int most) : free_(most < 1 ? 1 : most) {}
  void enter() {
    const Lock guard(mutex_);
    while (free_ == 0) left_.wait(mutex_);
    --free_;
  }
  void leave() {
    const Lock guard(mutex_);
    ++free_;
    left_.notify_one();
  }

 private:
  Mutex mutex_;
  Condition left_;
  int free_ MW_GUARDED_BY(mutex_);
};

}  // namespace millwright
