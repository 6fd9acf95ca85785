#include "target/drive/read_ahead.h"

#include <algorithm>
#include <chrono>

#include <boost/asio/steady_timer.hpp>

#include "common/base/check.h"
#include "common/base/resume.h"
#include "target/drive/drive.h"

namespace tarn::target {
namespace {

/// Bytes that are looked for in memory at once.
constexpr std::uint64_t kWarmBytes = 2U << 20U;
/// Time between two looks of an impatient reader if the drive goes on.
constexpr std::chrono::milliseconds kReadAheadLook{250};

constexpr std::uint64_t block_begin(std::uint64_t offset) {
  return offset / kBlockBytes * kBlockBytes;
}

}  // namespace

ReadAhead::ReadAhead(std::shared_ptr<OpenObject> object, std::uint64_t begin, std::uint64_t end,
                     const Options& options)
    : object_(std::move(object)),
      turns_(object_->drive().turns()),
      end_(end),
      options_(options),
      ready_(begin),
      asked_(begin) {
  TARN_CHECK(begin <= end && end <= object_->file_bytes());
}

ReadAhead::~ReadAhead() {
  give_back(windows_);
  if (stream_) turns_.stream_ends();
}

Task<Result<std::uint64_t>> ReadAhead::ready(std::uint64_t at) {
  while (true) {
    if (auto found = look(at)) co_return std::move(*found);
    if (!options_.impatient) {
      co_await changed();
      continue;
    }
    if (object_->drive().longest_call() >= HangWatch::kSlowSeconds)
      co_return fail(Errc::unavailable, "drive {} does not answer", object_->drive().path());
    co_await changed_soon();
  }
}

std::optional<Result<std::uint64_t>> ReadAhead::look(std::uint64_t at) {
  MutexLock lock(mutex_);
  changed_ = false;
  if (ready_ <= at && error_) return fail(*error_);
  if (in_flight_) return ready_ > at ? std::optional(Result<std::uint64_t>(ready_)) : std::nullopt;
  // No window is on its way. The next one is wanted once the reader is in the last one.
  const std::uint64_t next = std::max(asked_, at);
  const bool wanted = !error_ && next < end_ && next - at <= turns_.window(options_.purpose);
  if (wanted) {
    const std::uint64_t warm = std::min(kWarmBytes, end_ - next);
    if (!options_.verify_always && object_->may_send(next, warm)) {
      // Taken as it comes; further ones are looked for when the reader is there.
      if (ready_ <= at) ready_ = asked_ = next + warm;
    } else {
      lock.unlock();
      ask(block_begin(next));
      lock.lock();
    }
  }
  return ready_ > at ? std::optional(Result<std::uint64_t>(ready_)) : std::nullopt;
}

void ReadAhead::ask(std::uint64_t begin) {
  MutexLock lock(mutex_);
  if (!stream_) {
    stream_ = true;
    turns_.stream_begins();
  }
  const std::uint64_t to_block_end = block_begin(end_ + kBlockBytes - 1);
  const std::uint64_t end =
      std::min({begin + turns_.window(options_.purpose), to_block_end, object_->file_bytes()});
  TARN_CHECK(begin < end);
  TARN_CHECK(!in_flight_);
  in_flight_ = true;
  asked_ = end;
  const std::uint64_t epoch = epoch_;
  lock.unlock();
  const auto self = shared_from_this();
  turns_.ask(
      end - begin,
      [self, epoch, begin, end](HeadTurns::Age age) { self->start(epoch, begin, end, age); },
      [self, epoch](Error why) { self->refused(epoch, std::move(why)); }, options_.purpose);
}

void ReadAhead::start(std::uint64_t epoch, std::uint64_t begin, std::uint64_t end,
                      HeadTurns::Age age) {
  bool is_wanted = false;
  {
    const MutexLock lock(mutex_);
    is_wanted = epoch == epoch_;
    if (is_wanted) windows_.push_back({begin, end, begin, age});
  }
  if (!is_wanted) turns_.release(age, end - begin);
  const auto self = shared_from_this();
  object_->drive().post([self, epoch, begin, end] { self->read_window(epoch, begin, end); },
                        [self, epoch](Error why) {
                          self->turns_.done();
                          self->refused(epoch, std::move(why));
                        });
}

void ReadAhead::refused(std::uint64_t epoch, Error why) {
  static_cast<void>(report(epoch, 0, fail(std::move(why))));
  finish();
}

/// On a thread of the drive. The turn is ours until done().
void ReadAhead::read_window(std::uint64_t epoch, std::uint64_t begin, std::uint64_t end) {
  if (wanted(epoch)) {
    object_->will_need(begin, end - begin);
    for (std::uint64_t at = begin; at < end; at += kBlockBytes) {
      const Status brought = bring_block(at / kBlockBytes);
      if (!report(epoch, brought ? std::min(at + kBlockBytes, end) : at, brought)) break;
    }
  }
  turns_.done();
  finish();
}

/// The last block of an adopted object is held back by itself: bringing it is what compares the
/// whole with the object's checksum.
Status ReadAhead::bring_block(std::uint64_t block) {
  return object_->has_checksum(block) ? object_->verify_block(block) : object_->adopt_block(block);
}

bool ReadAhead::wanted(std::uint64_t epoch) {
  const MutexLock lock(mutex_);
  return !closed_ && epoch == epoch_;
}

/// True if the reading is to go on.
bool ReadAhead::report(std::uint64_t epoch, std::uint64_t ready, Status result) {
  MutexLock lock(mutex_);
  if (closed_ || epoch != epoch_) return false;
  ready_ = std::max(ready_, ready);
  if (!result) error_ = std::move(result.error());
  const bool more = !error_.has_value();
  const auto waiter = note_change();
  lock.unlock();
  if (waiter) waiter();
  return more;
}

void ReadAhead::finish() {
  std::deque<Window> unsent;
  std::function<void()> waiter;
  {
    const MutexLock lock(mutex_);
    TARN_CHECK(in_flight_);
    in_flight_ = false;
    if (closed_) unsent.swap(windows_);
    waiter = note_change();
  }
  if (waiter) waiter();
  give_back(unsent);
}

void ReadAhead::passed(std::uint64_t at) {
  std::deque<Window> sent;
  std::deque<Window> done;
  {
    const MutexLock lock(mutex_);
    while (!windows_.empty() && windows_.front().begin < at) {
      Window& first = windows_.front();
      if (first.end <= at || at >= end_) {
        done.push_back(first);
        windows_.pop_front();
        continue;
      }
      // A reader that went back would return the same part of the budget twice.
      TARN_CHECK(first.passed <= at);
      sent.push_back({first.begin, at, first.passed, first.age});
      first.passed = at;
      break;
    }
  }
  give_back(sent);
  give_back(done);
  if (!options_.keep_cached)
    for (const Window& window : done) object_->drop_behind(window.begin, window.end - window.begin);
}

/// Memory that is released may start a window at once, also one of ours, which takes the mutex.
void ReadAhead::give_back(const std::deque<Window>& windows) {
  for (const Window& window : windows)
    if (window.end > window.passed) turns_.release(window.age, window.end - window.passed);
}

void ReadAhead::lost(std::uint64_t at) {
  std::deque<Window> unsent;
  {
    const MutexLock lock(mutex_);
    ++epoch_;
    ready_ = asked_ = at;
    unsent.swap(windows_);
  }
  give_back(unsent);
}

void ReadAhead::close() {
  std::deque<Window> unsent;
  {
    const MutexLock lock(mutex_);
    closed_ = true;
    if (stream_) turns_.stream_ends();
    stream_ = false;
    if (!in_flight_) unsent.swap(windows_);  // else finish() releases them
  }
  give_back(unsent);
}

/// Returns the reader's waiter, if it waits: to be called without the mutex.
std::function<void()> ReadAhead::note_change() {
  changed_ = true;
  return std::exchange(waiter_, nullptr);
}

/// Returns after a moment in any case.
Task<void> ReadAhead::changed_soon() {
  const auto timer =
      std::make_shared<asio::steady_timer>(co_await asio::this_coro::executor, kReadAheadLook);
  timer->async_wait([self = shared_from_this()](const boost::system::error_code& cancelled) {
    if (cancelled) return;
    MutexLock lock(self->mutex_);
    const auto waiter = self->note_change();
    lock.unlock();
    if (waiter) waiter();
  });
  co_await changed();
  timer->cancel();
}

Task<void> ReadAhead::changed() {
  co_await suspend_until_called([this](auto resume) {
    MutexLock lock(mutex_);
    if (!changed_) {
      waiter_ = std::move(resume);
      return;
    }
    lock.unlock();
    resume();
  });
}

}  // namespace tarn::target
