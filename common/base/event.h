#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include <boost/asio/steady_timer.hpp>

#include "common/base/async.h"
#include "common/base/mutex.h"

namespace tarn {

/// An event that happens now and then; listeners wait for it instead of polling. Any thread may
/// ring. Must outlive its listeners.
class Event {
 public:
  /// Wakes all that listen.
  void ring();

 private:
  friend class EventListener;
  struct Waiter;
  Mutex mutex_;
  std::vector<std::shared_ptr<Waiter>> waiters_ TARN_GUARDED_BY(mutex_);
};

/// Listens to an event from its making on, for a coroutine on the loop of `executor`; no ring is
/// missed between two waits. For that loop alone.
class EventListener {
 public:
  EventListener(Event& event, const asio::any_io_executor& executor);
  ~EventListener();
  EventListener(const EventListener&) = delete;
  EventListener& operator=(const EventListener&) = delete;

  /// Waits until it has rung since the last wait, or until `deadline`.
  Task<void> wait_until(std::chrono::steady_clock::time_point deadline);
  /// Ends the wait that is under way, or the next one.
  void wake();

 private:
  Event& event_;
  std::shared_ptr<Event::Waiter> waiter_;
};

/// The next time that is a whole multiple of `period`. Coroutines that look for work at such times
/// wake their processor together, and an idle node but a few times a second.
[[nodiscard]] std::chrono::steady_clock::time_point next_tick(std::chrono::milliseconds period);

}  // namespace tarn
