#include "orchestrator/engine/semaphores.hpp"

#include "orchestrator/base/clock.hpp"

namespace millwright {

std::string semaphore_name(const LockDecl& lock, const std::string& node) {
  if (lock.name.empty()) return {};
  // No node's name has a newline, so the play's own locks are told from any node's.
  return (lock.on_all ? std::string() : node) + "\n" + lock.name;
}

bool Semaphores::free_now(const std::string& name, int places) const {
  const auto it = held_.find(name);
  return it == held_.end() || it->second < places;
}

bool Semaphores::free(const std::string& name, int places) const {
  const Lock guard(mutex_);
  return free_now(name, places);
}

bool Semaphores::take(const std::string& name, int places) {
  const Lock guard(mutex_);
  if (!free_now(name, places)) return false;
  ++held_[name];
  return true;
}

bool Semaphores::wait_for(const std::string& name, int places, const std::function<bool()>& give_up) {
  constexpr Milliseconds look_up = std::chrono::milliseconds(100);  // interrupts are numbers, nobody is told of them
  const Lock guard(mutex_);
  while (!free_now(name, places)) {
    if (give_up()) return false;
    given_back_.wait_for(mutex_, look_up);
  }
  ++held_[name];
  return true;
}

void Semaphores::give_back(const std::string& name) {
  const Lock guard(mutex_);
  const auto it = held_.find(name);
  if (it == held_.end()) return;
  if (--it->second == 0) held_.erase(it);
  given_back_.notify_all();
}

Place::Place(Semaphores& semaphores, std::string name, int places, const std::function<bool()>& give_up)
    : semaphores_(semaphores), name_(std::move(name)) {
  if (!name_.empty()) held_ = semaphores_.wait_for(name_, places, give_up);
}

Place::~Place() {
  if (held_) semaphores_.give_back(name_);
}

}  // namespace millwright
