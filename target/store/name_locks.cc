#include "target/store/name_locks.h"

#include <utility>

#include <boost/asio/async_result.hpp>
#include <boost/asio/post.hpp>

#include "common/base/check.h"

namespace tarn::target {

NameLocks::Held::~Held() {
  if (locks_ != nullptr) locks_->release(name_);
}

NameLocks::Held::Held(Held&& other) noexcept
    : locks_(std::exchange(other.locks_, nullptr)), name_(std::move(other.name_)) {}

NameLocks::Held& NameLocks::Held::operator=(Held&& other) noexcept {
  std::swap(locks_, other.locks_);
  std::swap(name_, other.name_);
  return *this;
}

Task<NameLocks::Held> NameLocks::acquire(std::string name) {
  const auto executor = co_await asio::this_coro::executor;
  co_await asio::async_initiate<const asio::use_awaitable_t<>, void()>(
      [this, &name, executor](auto handler) {
        auto resume = [executor,
                       handler = std::make_shared<decltype(handler)>(std::move(handler))] {
          auto own = std::move(*handler);
          asio::post(executor, [own = std::move(own)]() mutable { own(); });
        };
        const MutexLock lock(mutex_);
        const auto [at, free] = names_.try_emplace(name);
        if (free) {
          resume();
        } else {
          at->second.emplace_back(std::move(resume));
        }
      },
      asio::use_awaitable);
  co_return Held(*this, std::move(name));
}

bool NameLocks::is_held(const std::string& name) const {
  const MutexLock lock(mutex_);
  return names_.contains(name);
}

void NameLocks::release(const std::string& name) {
  const MutexLock lock(mutex_);
  const auto at = names_.find(name);
  TARN_CHECK(at != names_.end());  // a name that is held stays until it is released
  if (at->second.empty()) {
    names_.erase(at);
    return;
  }
  const auto next = std::move(at->second.front());
  at->second.pop_front();
  next();
}

}  // namespace tarn::target
