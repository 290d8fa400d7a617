// Whose turn it is on one host: several steps work side by side until one of them must be alone (a destructive action,
// or one that cuts the line that all share).
//
// Safe for concurrent use.
#pragma once

#include <functional>

#include "orchestrator/base/mutex.hpp"

namespace millwright {

class Turns {
 public:
  // Around the work on one step.
  void enter();
  void leave();
  // False while somebody is alone or waits to be: no further step should begin then.
  bool open() const;

  // Waits until every other step that is at work has ended or waits here too. False: `give_up` said so. Two that wait
  // for each other get their turns one after the other.
  bool take_all(const std::function<bool()>& give_up);
  void give_back();

 private:
  mutable Mutex mutex_;
  Condition moved_;
  int working_ MW_GUARDED_BY(mutex_) = 0;
  int waiting_ MW_GUARDED_BY(mutex_) = 0;  // of those working; they do nothing meanwhile
  bool alone_ MW_GUARDED_BY(mutex_) = false;
};

}  // namespace millwright
