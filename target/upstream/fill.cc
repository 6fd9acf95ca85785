#include "target/upstream/fill.h"

#include <algorithm>

#include "common/base/check.h"
#include "common/base/fail_point.h"

namespace tarn::target {
namespace {

using std::chrono::steady_clock;

constexpr std::chrono::seconds kLookAgain{60};

}  // namespace

void Fill::note(std::optional<Generation> known) {
  const MutexLock lock(mutex_);
  known_ = known;
}

void Fill::open(UpstreamObject object, std::shared_ptr<FollowedFile> file) {
  {
    const MutexLock lock(mutex_);
    TARN_CHECK(!opened_);  // readers of one fill follow one file
    opened_ = Opened{std::move(object), std::move(file)};
  }
  progress_.ring();
}

void Fill::written(std::uint64_t end) {
  {
    const MutexLock lock(mutex_);
    TARN_CHECK(opened_.has_value());
    const std::uint64_t size = opened_->object.size.value_or(0);
    const std::uint64_t most = size - std::min(size, kHeldBack);
    released_ = std::max(released_, std::min(end, most));
  }
  progress_.ring();
}

void Fill::release_all() {
  {
    const MutexLock lock(mutex_);
    TARN_CHECK(opened_.has_value());
    TARN_CHECK(released_ <= opened_->object.size.value_or(0));
    released_ = opened_->object.size.value_or(0);
    is_whole_ = true;
  }
  progress_.ring();
}

void Fill::end(Status readable, Result<std::uint64_t> stored) {
  {
    const MutexLock lock(mutex_);
    if (stored_) return;
    stored_ = std::move(stored);
    if (!readable) error_ = readable.error();
  }
  progress_.ring();
}

Task<Result<std::uint64_t>> Fill::ended(std::stop_token stop) {
  const std::stop_callback wake(stop, [this] { progress_.ring(); });
  co_await wait_for([this, &stop]()
                        TARN_REQUIRES(mutex_) { return stored_ || stop.stop_requested(); });
  const MutexLock lock(mutex_);
  if (!stored_) co_return fail(Errc::cancelled, "told to stop");
  co_return *stored_;
}

bool Fill::is_whole() const {
  const MutexLock lock(mutex_);
  return is_whole_;
}

std::uint64_t Fill::released() const {
  const MutexLock lock(mutex_);
  return released_;
}

template <class Look>
Task<void> Fill::wait_for(Look look) {
  EventListener listener(progress_, co_await asio::this_coro::executor);
  while (true) {
    {
      const MutexLock lock(mutex_);
      if (look()) co_return;
    }
    co_await listener.wait_until(steady_clock::now() + kLookAgain);
  }
}

Task<Result<Fill::Opened>> Fill::opened() {
  co_await wait_for([this]() TARN_REQUIRES(mutex_) { return opened_ || error_; });
  const MutexLock lock(mutex_);
  if (!opened_) co_return fail(*error_);
  co_return *opened_;
}

std::optional<Fill::Opened> Fill::opened_now() const {
  const MutexLock lock(mutex_);
  return opened_;
}

bool Fill::is_of(const std::optional<Generation>& known) const {
  const MutexLock lock(mutex_);
  // Before it is noted the record is yet to be looked for, and nothing newer is missed.
  return !known_ || *known_ == known || !SAFETY("safety.former_fill");
}

Task<Result<std::uint64_t>> Fill::wait_beyond(std::uint64_t at) {
  co_await wait_for([this, at]() TARN_REQUIRES(mutex_) { return released_ > at || error_; });
  const MutexLock lock(mutex_);
  TARN_CHECK(released_ == 0 || released_ <= opened_->object.size.value_or(0));
  if (released_ > at) co_return released_;
  co_return fail(*error_);
}

FillBoard::Joined FillBoard::join(const std::string& key, std::uint64_t map_version) {
  const MutexLock lock(mutex_);
  auto& fill = fills_[key];
  const bool is_new = fill == nullptr;
  if (is_new) fill = std::make_shared<Fill>(map_version);
  return {fill, is_new};
}

std::shared_ptr<Fill> FillBoard::find(const std::string& key) const {
  const MutexLock lock(mutex_);
  const auto found = fills_.find(key);
  return found == fills_.end() ? nullptr : found->second;
}

void FillBoard::end(const std::string& key, const Fill& fill) {
  const MutexLock lock(mutex_);
  const auto found = fills_.find(key);
  if (found != fills_.end() && found->second.get() == &fill) fills_.erase(found);
}

void FillBoard::part_with(const std::string& key) {
  const MutexLock lock(mutex_);
  fills_.erase(key);
}

std::size_t FillBoard::running() const {
  const MutexLock lock(mutex_);
  return fills_.size();
}

}  // namespace tarn::target
