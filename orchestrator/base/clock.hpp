// The seam to time. Tests drive a ManualClock; the program uses SystemClock.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

namespace millwright {

using Milliseconds = std::chrono::milliseconds;
using Seconds = std::chrono::seconds;
using TimePoint = std::chrono::system_clock::time_point;
using SteadyPoint = std::chrono::steady_clock::time_point;

// Safe for concurrent use from several threads.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual TimePoint now() const = 0;       // wall clock, for people and the journal
  virtual SteadyPoint steady() const = 0;  // for deadlines
  // Blocks until the duration has passed or `cancelled` (polled at least every 100 ms) returns true.
  virtual void sleep(Milliseconds duration, const std::function<bool()>& cancelled = {}) = 0;
};

class SystemClock final : public Clock {
 public:
  TimePoint now() const override;
  SteadyPoint steady() const override;
  void sleep(Milliseconds duration, const std::function<bool()>& cancelled = {}) override;
};

// "2026-11-30T14:12:07Z"
std::string iso_utc(TimePoint time);

}  // namespace millwright
