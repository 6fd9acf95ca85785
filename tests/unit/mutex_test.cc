#include "common/base/mutex.h"

#include <array>
#include <chrono>
#include <thread>

#include <catch2/catch.hpp>

namespace mutex_test {

using namespace tarn;
using std::chrono::steady_clock;

/// Passes one number at a time from a thread to another.
class Slot {
 public:
  void put(int value) {
    MutexLock lock(mutex_);
    while (value_ != 0) changed_.wait(lock);
    value_ = value;
    lock.unlock();
    changed_.notify_all();
  }
  int take() {
    MutexLock lock(mutex_);
    while (value_ == 0) changed_.wait(lock);
    const int out = value_;
    value_ = 0;
    lock.unlock();
    changed_.notify_all();
    return out;
  }
  /// 0: none came until `deadline`.
  int take_until(steady_clock::time_point deadline) {
    MutexLock lock(mutex_);
    while (value_ == 0)
      if (!changed_.wait_until(lock, deadline)) break;
    const int out = value_;
    value_ = 0;
    return out;
  }

 private:
  Mutex mutex_;
  ConditionVariable changed_;
  int value_ TARN_GUARDED_BY(mutex_) = 0;
};

struct Counter {
  Mutex mutex;
  int value TARN_GUARDED_BY(mutex) = 0;
};

TEST_CASE("mutex: threads that hold it one after the other lose no change", "[base]") {
  constexpr int kThreads = 4;
  constexpr int kTimes = 10'000;
  Counter counter;
  std::array<std::thread, kThreads> threads;
  for (std::thread& thread : threads)
    thread = std::thread([&counter] {
      for (int n = 0; n < kTimes; ++n) {
        const MutexLock lock(counter.mutex);
        ++counter.value;
      }
    });
  for (std::thread& thread : threads) thread.join();
  const MutexLock lock(counter.mutex);
  CHECK(counter.value == kThreads * kTimes);
}

TEST_CASE("mutex: a lock is held until it is unlocked, and may be locked again", "[base]") {
  Counter counter;
  const auto add_one = [&counter] {
    const MutexLock lock(counter.mutex);
    ++counter.value;
  };
  {
    MutexLock lock(counter.mutex);
    std::thread other(add_one);
    CHECK(counter.value == 0);
    lock.unlock();
    other.join();
    lock.lock();
    CHECK(counter.value == 1);
  }
  {
    MutexLock lock(counter.mutex);
    lock.unlock();  // its end must not unlock again
  }
  std::thread(add_one).join();
  const MutexLock lock(counter.mutex);
  CHECK(counter.value == 2);
}

TEST_CASE("mutex: a wait ends with a notification, holding the mutex", "[base]") {
  constexpr int kLast = 1'000;
  Slot slot;
  std::thread giver([&slot] {
    for (int i = 1; i <= kLast; ++i) slot.put(i);
  });
  int in_order = 0;
  for (int i = 1; i <= kLast; ++i) in_order += slot.take() == i ? 1 : 0;
  giver.join();
  CHECK(in_order == kLast);
}

TEST_CASE("mutex: a wait ends at its deadline, holding the mutex", "[base]") {
  Slot slot;
  CHECK(slot.take_until(steady_clock::now()) == 0);
  CHECK(slot.take_until(steady_clock::now() + std::chrono::milliseconds(1)) == 0);
  slot.put(7);
  CHECK(slot.take_until(steady_clock::now()) == 7);
}

}  // namespace mutex_test
