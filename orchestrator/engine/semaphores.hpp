// Places that steps hold while they run: what `lock` in a playbook means.
//
// Safe for concurrent use: the workers of all hosts share one.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "orchestrator/base/mutex.hpp"
#include "orchestrator/playbook/playbook.hpp"

namespace millwright {

// The name under which a step's lock is counted: of the node it runs on, or of the whole play. Empty: it takes none.
std::string semaphore_name(const LockDecl& lock, const std::string& node);

class Semaphores {
 public:
  bool free(const std::string& name, int places) const;
  // False, and nothing taken: all places are held.
  bool take(const std::string& name, int places);
  // Waits for a place. False: `give_up`, asked every now and then, said so.
  bool wait_for(const std::string& name, int places, const std::function<bool()>& give_up);
  void give_back(const std::string& name);

 private:
  bool free_now(const std::string& name, int places) const MW_REQUIRES(mutex_);

  mutable Mutex mutex_;
  Condition given_back_;
  std::map<std::string, int> held_ MW_GUARDED_BY(mutex_);
};

// Holds a place while it lives.
class Place {
 public:
  Place(Semaphores& semaphores, std::string name, int places, const std::function<bool()>& give_up);
  ~Place();
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;
  bool granted() const { return name_.empty() || held_; }

 private:
  Semaphores& semaphores_;
  const std::string name_;
  bool held_ = false;
};

}  // namespace millwright
