#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

// Mutexes that the compiler knows (Clang's documentation, "Thread Safety Analysis"). Members name
// the mutex that guards them and functions name the one that they need. -Wthread-safety reports
// each access without it. The analysis looks at one function at a time and skips constructors and
// destructors. A lambda is a function: one that is called under a lock needs TARN_REQUIRES.

#if defined(__clang__)
#define TARN_THREAD_SAFETY(attribute) __attribute__((attribute))
#else
#define TARN_THREAD_SAFETY(attribute)
#endif

/// A type whose objects are locked and unlocked; one that holds such an object until its end.
#define TARN_CAPABILITY(kind) TARN_THREAD_SAFETY(capability(kind))
#define TARN_SCOPED_CAPABILITY TARN_THREAD_SAFETY(scoped_lockable)
/// A member that is read and written by holders of the mutex only.
#define TARN_GUARDED_BY(mutex) TARN_THREAD_SAFETY(guarded_by(mutex))
/// A function whose caller holds the mutex, and holds it still when the function returns.
#define TARN_REQUIRES(...) TARN_THREAD_SAFETY(requires_capability(__VA_ARGS__))
/// A function that locks or unlocks the mutex; without an argument, the object itself.
#define TARN_ACQUIRE(...) TARN_THREAD_SAFETY(acquire_capability(__VA_ARGS__))
#define TARN_RELEASE(...) TARN_THREAD_SAFETY(release_capability(__VA_ARGS__))
/// A function whose caller must not hold the mutex, because the function locks it.
#define TARN_EXCLUDES(...) TARN_THREAD_SAFETY(locks_excluded(__VA_ARGS__))

namespace tarn {

/// std::mutex, at the same cost, for the analysis. Thread-safe. A MutexLock locks and unlocks it.
class TARN_CAPABILITY("mutex") Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void lock() TARN_ACQUIRE() { mutex_.lock(); }
  void unlock() TARN_RELEASE() { mutex_.unlock(); }

 private:
  friend class ConditionVariable;
  std::mutex mutex_;
};

/// Holds a mutex from its making to its end, or to an unlock(). Costs what std::lock_guard costs.
/// Belongs to one thread; the mutex must outlive it. It cannot be handed over, because the analysis
/// would lose sight of it.
class TARN_SCOPED_CAPABILITY [[nodiscard]] MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) TARN_ACQUIRE(mutex) : mutex_(mutex) { mutex_.lock(); }
  ~MutexLock() TARN_RELEASE() {
    if (held_) mutex_.unlock();
  }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

  /// Unlocks early. A lock() may follow. The analysis reports the wrong one of the two.
  void unlock() TARN_RELEASE() {
    mutex_.unlock();
    held_ = false;
  }
  void lock() TARN_ACQUIRE() {
    mutex_.lock();
    held_ = true;
  }

 private:
  friend class ConditionVariable;
  Mutex& mutex_;
  bool held_ = true;
};

/// std::condition_variable, for the analysis. Thread-safe. The caller of a wait holds `lock`: it is
/// unlocked for the wait and locked again at the return. A wait may return early, so callers look
/// in a loop. No function takes a predicate: the analysis would not see that it runs under the
/// lock.
class ConditionVariable {
 public:
  void notify_one() noexcept { changed_.notify_one(); }
  void notify_all() noexcept { changed_.notify_all(); }

  void wait(MutexLock& lock) {
    std::unique_lock native(lock.mutex_.mutex_, std::adopt_lock);
    changed_.wait(native);
    native.release();
  }
  /// False if `deadline` has passed.
  bool wait_until(MutexLock& lock, std::chrono::steady_clock::time_point deadline) {
    std::unique_lock native(lock.mutex_.mutex_, std::adopt_lock);
    const bool in_time = changed_.wait_until(native, deadline) == std::cv_status::no_timeout;
    native.release();
    return in_time;
  }

 private:
  std::condition_variable changed_;
};

}  // namespace tarn
