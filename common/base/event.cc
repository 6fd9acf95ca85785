#include "common/base/event.h"

#include <algorithm>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/post.hpp>

namespace tarn {

struct Event::Waiter {
  explicit Waiter(const asio::any_io_executor& executor) : timer(executor) {}
  asio::steady_timer timer;
  bool rung = false;
};

void Event::ring() {
  const MutexLock lock(mutex_);
  for (const auto& waiter : waiters_)
    asio::post(waiter->timer.get_executor(), [waiter] {
      waiter->rung = true;
      waiter->timer.cancel();
    });
}

EventListener::EventListener(Event& event, const asio::any_io_executor& executor)
    : event_(event), waiter_(std::make_shared<Event::Waiter>(executor)) {
  const MutexLock lock(event_.mutex_);
  event_.waiters_.push_back(waiter_);
}

EventListener::~EventListener() {
  const MutexLock lock(event_.mutex_);
  std::erase(event_.waiters_, waiter_);
}

Task<void> EventListener::wait_until(std::chrono::steady_clock::time_point deadline) {
  const auto waiter = waiter_;
  waiter->timer.expires_at(deadline);
  if (!waiter->rung) (void)co_await waiter->timer.async_wait(kTuple);
  waiter->rung = false;
}

void EventListener::wake() {
  waiter_->rung = true;
  waiter_->timer.cancel();
}

std::chrono::steady_clock::time_point next_tick(std::chrono::milliseconds period) {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  const auto ticks = now / std::chrono::duration_cast<std::chrono::nanoseconds>(period);
  return std::chrono::steady_clock::time_point(period * (ticks + 1));
}

}  // namespace tarn
