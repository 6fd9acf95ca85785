#include "target/drive/write_behind.h"

#include <algorithm>
#include <fcntl.h>
#include <unistd.h>
#include <utility>

#include "common/base/check.h"
#include "common/base/resume.h"
#include "target/drive/drive.h"

namespace tarn::target {
namespace {

/// Less than this is not worth a turn: the sync of a small file is shared with those of other
/// files.
constexpr std::uint64_t kRestBytes = 1U << 20U;

}  // namespace

WriteBehind::~WriteBehind() {
  // As for OpenObject: it may be the last close of a file that is unlinked.
  if (fd_.valid()) drive_.post([fd = fd_.release()] { ::close(fd); });
}

void WriteBehind::written(int fd, std::uint64_t end) {
  const std::uint64_t full = drive_.turns().window(purpose_);
  std::optional<Window> window;
  {
    const MutexLock lock(mutex_);
    end_ = std::max(end_, end);
    window = next(fd, full);
  }
  if (window) send(*window);
}

/// Window that goes next, if that has at least `least` bytes and nothing else is on its way.
std::optional<WriteBehind::Window> WriteBehind::next(int fd, std::uint64_t least) {
  TARN_CHECK(sent_ <= end_);
  if (on_its_way_ || error_ || end_ - sent_ < least) return std::nullopt;
  if (!fd_.valid()) fd_ = UniqueFd(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
  if (!fd_.valid()) return std::nullopt;  // no descriptor to be had: the sync at the end does it
  on_its_way_ = true;
  return Window{std::exchange(sent_, end_), end_, fd_.get()};
}

/// Sends a window. It may be refused at once, which takes the mutex.
void WriteBehind::send(Window window) {
  const auto self = shared_from_this();
  const auto start = [self, window](HeadTurns::Age) {
    self->drive_.post([self, window] { self->bring(window); },
                      [self](Error why) {
                        self->drive_.turns().done();
                        self->brought(fail(std::move(why)));
                      });
  };
  const auto refused = [self](Error why) { self->brought(fail(std::move(why))); };
  drive_.turns().ask(0, start, refused, purpose_);
}

/// On a thread of the drive, in a turn.
void WriteBehind::bring(Window window) {
  TARN_CHECK(window.begin < window.end);
  Status result = drive_.write_back(window.fd, window.begin, window.end - window.begin);
  drive_.turns().done();
  brought(std::move(result));
}

void WriteBehind::brought(Status result) {
  const std::uint64_t full = drive_.turns().window(purpose_);
  std::optional<Window> window;
  std::function<void()> waiter;
  {
    const MutexLock lock(mutex_);
    TARN_CHECK(on_its_way_);
    on_its_way_ = false;
    if (!result) error_ = std::move(result.error());
    waiter = std::exchange(waiter_, nullptr);
    window = next(fd_.get(), full);
  }
  if (window) send(*window);
  if (waiter) waiter();
}

/// The condition is looked at under the mutex, again after each window.
Task<Status> WriteBehind::wait_while(std::function<bool()> condition) {
  while (true) {
    {
      const MutexLock lock(mutex_);
      if (error_) co_return fail(*error_);
      if (!condition()) co_return Status();
    }
    co_await suspend_until_called([this](auto resume) {
      MutexLock lock(mutex_);
      if (on_its_way_) {
        waiter_ = std::move(resume);
        return;
      }
      lock.unlock();
      resume();
    });
  }
}

Task<Status> WriteBehind::room() {
  const std::uint64_t window = drive_.turns().window(purpose_);
  const auto is_full = [this, window]()
                           TARN_REQUIRES(mutex_) { return on_its_way_ && end_ - sent_ >= window; };
  co_return co_await wait_while(is_full);
}

Task<Status> WriteBehind::finish(int fd) {
  const auto on_its_way = [this]() TARN_REQUIRES(mutex_) { return on_its_way_; };
  CO_TRY_OK(co_await wait_while(on_its_way));
  std::optional<Window> rest;
  {
    const MutexLock lock(mutex_);
    rest = next(fd, kRestBytes);
  }
  if (rest) send(*rest);
  co_return co_await wait_while(on_its_way);
}

Task<Status> WriteBehind::cut(std::uint64_t size) {
  const auto on_its_way = [this]() TARN_REQUIRES(mutex_) { return on_its_way_; };
  CO_TRY_OK(co_await wait_while(on_its_way));
  const MutexLock lock(mutex_);
  end_ = std::min(end_, size);
  sent_ = std::min(sent_, size);
  co_return Status();
}

}  // namespace tarn::target
