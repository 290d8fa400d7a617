// A clock that moves only when it is told to; sleeping tells it to. Safe for concurrent use.
#pragma once

#include "orchestrator/base/clock.hpp"
#include "orchestrator/base/mutex.hpp"

namespace millwright {

class ManualClock final : public Clock {
 public:
  TimePoint now() const override {
    const Lock lock(mutex_);
    return TimePoint(std::chrono::hours(24 * 365 * 50)) + elapsed_;
  }
  SteadyPoint steady() const override {
    const Lock lock(mutex_);
    return SteadyPoint(std::chrono::hours(1)) + elapsed_;
  }
  void sleep(Milliseconds duration, const std::function<bool()>& cancelled = {}) override {
    if (!cancelled || !cancelled()) advance(duration);
  }
  void advance(Milliseconds duration) {
    const Lock lock(mutex_);
    elapsed_ += duration;
  }

 private:
  mutable Mutex mutex_;
  Milliseconds elapsed_ MW_GUARDED_BY(mutex_){0};
};

}  // namespace millwright
