// std::mutex with clang's thread-safety annotations, so that lock discipline is a compile error (-Wthread-safety).
// Guard members with MW_GUARDED_BY(mutex_) and private helpers with MW_REQUIRES(mutex_).
#pragma once

#include <condition_variable>
#include <mutex>

#if defined(__clang__)
#define MW_THREAD_ANNOTATION(x) __attribute__((x))
#else
#define MW_THREAD_ANNOTATION(x)
#endif
#define MW_CAPABILITY(x) MW_THREAD_ANNOTATION(capability(x))
#define MW_SCOPED_CAPABILITY MW_THREAD_ANNOTATION(scoped_lockable)
#define MW_GUARDED_BY(x) MW_THREAD_ANNOTATION(guarded_by(x))
#define MW_REQUIRES(...) MW_THREAD_ANNOTATION(requires_capability(__VA_ARGS__))
#define MW_ACQUIRE(...) MW_THREAD_ANNOTATION(acquire_capability(__VA_ARGS__))
#define MW_RELEASE(...) MW_THREAD_ANNOTATION(release_capability(__VA_ARGS__))
#define MW_EXCLUDES(...) MW_THREAD_ANNOTATION(locks_excluded(__VA_ARGS__))

namespace millwright {

class MW_CAPABILITY("mutex") Mutex {
 public:
  void lock() MW_ACQUIRE() { mutex_.lock(); }
  void unlock() MW_RELEASE() { mutex_.unlock(); }

 private:
  std::mutex mutex_;
};

class MW_SCOPED_CAPABILITY Lock {
 public:
  explicit Lock(Mutex& mutex) MW_ACQUIRE(mutex) : mutex_(mutex) { mutex_.lock(); }
  ~Lock() MW_RELEASE() { mutex_.unlock(); }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  Mutex& mutex_;
};

// Waits on a Mutex that the caller holds by Lock. Always wait in a loop on the condition.
class Condition {
 public:
  void wait(Mutex& mutex) MW_REQUIRES(mutex) { condition_.wait(mutex); }
  template <class Duration>
  std::cv_status wait_for(Mutex& mutex, Duration duration) MW_REQUIRES(mutex) {
    return condition_.wait_for(mutex, duration);
  }
  void notify_one() { condition_.notify_one(); }
  void notify_all() { condition_.notify_all(); }

 private:
  std::condition_variable_any condition_;
};

}  // namespace millwright
