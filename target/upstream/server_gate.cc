#include "target/upstream/server_gate.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"

namespace tarn::target {

ServerGate::Pass& ServerGate::Pass::operator=(Pass&& other) noexcept {
  if (gate_ && this != &other) gate_->leave();
  gate_ = std::move(other.gate_);
  return *this;
}

ServerGate::Pass::~Pass() {
  if (gate_) gate_->leave();
}

void ServerGate::Pass::note(bool answered) {
  TARN_CHECK(gate_ != nullptr);
  gate_->note(answered);
}

Result<bool> ServerGate::try_enter() {
  const MutexLock lock(mutex_);
  const BootTime now = clock_.boot_time();
  if (now < refuses_until_)
    return fail(Errc::unavailable, "it failed {} times in a row, and is asked again in {} s",
                failures_, std::chrono::ceil<std::chrono::seconds>(refuses_until_ - now).count());
  TARN_CHECK(running_ <= requests_);
  if (running_ >= requests_) return false;
  // The one request that looks whether it answers again: until it has ended no other follows.
  if (failures_ >= kFailuresMax) refuses_until_ = now + open_for_;
  ++running_;
  return true;
}

Task<Result<ServerGate::Pass>> ServerGate::enter() {
  CO_TRY(bool entered, try_enter());
  if (entered) co_return Pass(shared_from_this());
  EventListener listener(left_, co_await asio::this_coro::executor);
  const auto deadline = std::chrono::steady_clock::now() + kWaitMost;
  while (true) {
    CO_TRY(entered, try_enter());
    if (entered) co_return Pass(shared_from_this());
    if (std::chrono::steady_clock::now() >= deadline)
      co_return fail(Errc::unavailable,
                     "{} requests to it are under way, and none has ended for {} s", requests_,
                     kWaitMost.count());
    co_await listener.wait_until(deadline);
  }
}

void ServerGate::leave() {
  {
    const MutexLock lock(mutex_);
    TARN_CHECK(running_ > 0);
    --running_;
  }
  left_.ring();
}

void ServerGate::note(bool answered) {
  const MutexLock lock(mutex_);
  if (answered) {
    failures_ = 0;
    refuses_until_ = BootTime(0);
    open_for_ = kOpenFirst;
    return;
  }
  ++failures_;
  if (failures_ < kFailuresMax) return;
  if (failures_ > kFailuresMax) open_for_ = std::min(open_for_ * 2, kOpenMost);
  refuses_until_ = clock_.boot_time() + open_for_;
}

bool ServerGate::is_open() const {
  const MutexLock lock(mutex_);
  return failures_ >= kFailuresMax;
}

std::shared_ptr<ServerGate> ServerGates::of(const std::string& server) {
  const MutexLock lock(mutex_);
  auto& gate = gates_[server];
  if (!gate) gate = std::make_shared<ServerGate>(requests_, clock_);
  return gate;
}

std::size_t ServerGates::open() const {
  const MutexLock lock(mutex_);
  return static_cast<std::size_t>(std::count_if(
      gates_.begin(), gates_.end(), [](const auto& each) { return each.second->is_open(); }));
}

}  // namespace tarn::target
