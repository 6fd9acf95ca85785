#include "target/drive/head_turns.h"

#include <algorithm>
#include <future>
#include <memory>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/base/fail_point.h"
#include "common/base/resume.h"

namespace tarn::target {

void HeadTurns::ask(std::uint64_t bytes, std::function<void(Age)> start,
                    std::function<void(Error)> refused, TurnFor purpose) {
  {
    MutexLock lock(mutex_);
    if (refusing_ && refused) {
      const Error why = *refusing_;
      lock.unlock();
      refused(why);
      return;
    }
    const bool is_free = queue_.empty() && active_ < limits_.at_once;
    if (purpose == TurnFor::client && !is_free) clients_waited_ = true;
    queue_.push_back({bytes, std::move(start), std::move(refused), purpose});
  }
  grant();
}

Task<Status> HeadTurns::wait(TurnFor purpose) {
  const auto result = std::make_shared<Status>();
  co_await suspend_until_called([this, result, purpose](const auto& resume) {
    const auto refused = [resume, result](Error why) {
      *result = fail(std::move(why));
      resume();
    };
    ask(0, [resume](Age) { resume(); }, refused, purpose);
  });
  co_return std::move(*result);
}

void HeadTurns::refuse(const Error& why) {
  std::vector<Waiter> refused;
  {
    const MutexLock lock(mutex_);
    refusing_ = why;
    std::deque<Waiter> kept;
    for (Waiter& each : queue_) {
      if (each.refused) {
        refused.push_back(std::move(each));
      } else {
        kept.push_back(std::move(each));
      }
    }
    queue_.swap(kept);
  }
  for (const Waiter& each : refused) each.refused(why);
}

void HeadTurns::accept() {
  const MutexLock lock(mutex_);
  refusing_.reset();
}

void HeadTurns::done() {
  {
    const MutexLock lock(mutex_);
    TARN_CHECK(active_ > 0 && active_ <= limits_.at_once);
    --active_;
  }
  grant();
}

void HeadTurns::run(const std::function<void()>& work) {
  // Shared: the other thread still uses it when we go on.
  const auto ours = std::make_shared<std::promise<void>>();
  ask(0, [ours](Age) { ours->set_value(); }, nullptr, TurnFor::background);
  ours->get_future().wait();
  work();
  done();
}

void HeadTurns::release(Age age, std::uint64_t bytes) {
  {
    const MutexLock lock(mutex_);
    // Bytes that come back were granted: with too many of them readers would never wait.
    if (age == age_) {
      TARN_CHECK(bytes <= held_);
      held_ -= bytes;
    }
  }
  grant();
}

void HeadTurns::grant() {
  std::vector<std::pair<std::function<void(Age)>, Age>> starts;
  {
    const MutexLock lock(mutex_);
    while (!queue_.empty() && active_ < limits_.at_once &&
           (held_ == 0 || held_ + queue_.front().bytes <= limits_.budget)) {
      Waiter next = std::move(queue_.front());
      queue_.pop_front();
      ++active_;
      ++granted_;
      held_ += next.bytes;
      starts.emplace_back(std::move(next.start), age_);
    }
  }
  for (auto& [start, age] : starts) start(age);
}

void HeadTurns::tick() {
  {
    const MutexLock lock(mutex_);
    const bool stuck = !queue_.empty() && active_ == 0 && granted_ == granted_at_tick_;
    granted_at_tick_ = granted_;
    clients_waited_before_ = std::exchange(clients_waited_, false);
    if (!stuck || !SAFETY("safety.forgive_turns")) return;
    held_ = 0;
    age_ = Age{static_cast<std::uint64_t>(age_) + 1};
  }
  grant();
}

void HeadTurns::stream_begins() {
  const MutexLock lock(mutex_);
  ++streams_;
}

void HeadTurns::stream_ends() {
  const MutexLock lock(mutex_);
  TARN_CHECK(streams_ > 0);
  --streams_;
}

std::uint64_t HeadTurns::window(TurnFor purpose) const {
  if (purpose == TurnFor::background && clients_wait()) return limits_.window_beside_clients;
  const MutexLock lock(mutex_);
  // Each stream has one window on its way to the client and the next one ready.
  const std::uint64_t share = limits_.budget / (2 * std::max<std::size_t>(streams_, 1));
  return std::clamp(share, limits_.window_min, limits_.window_max);
}

std::size_t HeadTurns::streams() const {
  const MutexLock lock(mutex_);
  return streams_;
}

std::size_t HeadTurns::waiting() const {
  const MutexLock lock(mutex_);
  return queue_.size();
}

bool HeadTurns::clients_wait() const {
  const MutexLock lock(mutex_);
  const auto is_client = [](const Waiter& each) { return each.purpose == TurnFor::client; };
  return clients_waited_ || clients_waited_before_ ||
         std::any_of(queue_.begin(), queue_.end(), is_client);
}

}  // namespace tarn::target
