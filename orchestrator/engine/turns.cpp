#include "orchestrator/engine/turns.hpp"

#include "orchestrator/base/clock.hpp"

namespace millwright {

void Turns::enter() {
  const Lock guard(mutex_);
  ++working_;
}

void Turns::leave() {
  const Lock guard(mutex_);
  --working_;
  moved_.notify_all();
}

bool Turns::open() const {
  const Lock guard(mutex_);
  return !alone_ && waiting_ == 0;
}

bool Turns::take_all(const std::function<bool()>& give_up) {
  constexpr Milliseconds look_up = std::chrono::milliseconds(100);  // interrupts are numbers, nobody is told of them
  const Lock guard(mutex_);
  ++waiting_;
  // Rollback works outside of the schedule: it waits without having entered.
  while (alone_ || working_ > waiting_) {
    if (give_up()) {
      --waiting_;
      moved_.notify_all();
      return false;
    }
    moved_.wait_for(mutex_, look_up);
  }
  --waiting_;
  alone_ = true;
  return true;
}

void Turns::give_back() {
  const Lock guard(mutex_);
  alone_ = false;
  moved_.notify_all();
}

}  // namespace millwright
