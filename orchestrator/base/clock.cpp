#include "orchestrator/base/clock.hpp"

#include <algorithm>
#include <ctime>
#include <thread>

namespace millwright {

TimePoint SystemClock::now() const { return std::chrono::system_clock::now(); }
SteadyPoint SystemClock::steady() const { return std::chrono::steady_clock::now(); }

void SystemClock::sleep(Milliseconds duration, const std::function<bool()>& cancelled) {
  const SteadyPoint end = steady() + duration;
  while (steady() < end && !(cancelled && cancelled())) {
    const auto left = std::chrono::duration_cast<Milliseconds>(end - steady()) + Milliseconds(1);
    std::this_thread::sleep_for(std::min(left, Milliseconds(50)));
  }
}

std::string iso_utc(TimePoint time) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(time);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  char buffer[32];
  const std::size_t size = std::strftime(buffer, sizeof buffer, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return std::string(buffer, size);
}

}  // namespace millwright
