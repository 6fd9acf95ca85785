#include "target/coded/slice_lane.h"

#include <algorithm>
#include <cstring>

#include "common/base/check.h"
#include "target/coded/slice_orders.h"
#include "target/drive/block_writer.h"

namespace tarn::target {
namespace {

constexpr std::chrono::milliseconds kLaneLookEvery{250};

}  // namespace

/// Makes the queue of a full copy k times as long: its stripe comes as k units.
SliceLane::SliceLane(TargetNode& node, std::string holder, SliceWrite write,
                     const asio::any_io_executor& executor)
    : node_(node),
      holder_(std::move(holder)),
      write_(std::move(write)),
      changed_(executor),
      queued_max_(kQueuedMax * (is_full_copy() ? write_.geometry.k : 1)) {}

Task<Result<std::shared_ptr<SliceLane>>> SliceLane::open(TargetNode& node, std::string holder,
                                                         SliceWrite write) {
  const auto executor = co_await asio::this_coro::executor;
  std::shared_ptr<SliceLane> lane(
      new SliceLane(node, std::move(holder), std::move(write), executor));
  if (lane->holder_ == node.id) {
    CO_TRY(auto slice, co_await begin_slice(node, lane->write_));
    lane->drive_ = node.store.drive_at(slice->file().drive().path());
    lane->start(executor, std::nullopt, std::move(slice));
  } else {
    CO_TRY(auto upload, co_await SliceUpload::open(node, lane->holder_, lane->write_));
    lane->start(executor, std::move(upload), nullptr);
  }
  co_return lane;
}

void SliceLane::start(asio::any_io_executor executor, std::optional<SliceUpload> upload,
                      std::unique_ptr<NewSlice> slice) {
  Task<Status> work = upload ? carry(std::move(*upload)) : store(std::move(slice));
  done_ =
      !node_.aside.spawn(std::move(executor), "slice", run(shared_from_this(), std::move(work)));
  if (done_) fail_with({Errc::unavailable, "this target is about to end"});
}

Task<void> SliceLane::run(std::shared_ptr<SliceLane> self, Task<Status> work) {
  const Status carried = co_await std::move(work);
  if (!carried) self->fail_with(carried.error());
  self->done_ = true;
  self->queue_.clear();
  self->changed_.cancel();
}

/// The first error stays.
void SliceLane::fail_with(Error error) {
  if (status_) status_ = fail(std::move(error));
}

/// False: nothing changed by then.
Task<bool> SliceLane::wait(std::chrono::steady_clock::time_point until) {
  changed_.expires_at(until);
  const auto [cancelled] = co_await changed_.async_wait(kTuple);
  co_return cancelled.failed();
}

bool SliceLane::has_lease() const {
  return holder_ == node_.id || node_.view.state()->live.contains(holder_);
}

Task<Status> SliceLane::push(std::shared_ptr<const void> keeper, std::span<const std::byte> bytes) {
  const auto until = std::chrono::steady_clock::now() + kPatience;
  while (status_ && !has_room()) {
    const auto now = std::chrono::steady_clock::now();
    if (!has_lease())
      fail_with({Errc::unavailable, fmt::format("target t[{}] has lost its lease", holder_)});
    else if (now >= until)
      fail_with({Errc::timeout,
                 fmt::format("target t[{}] takes nothing more of slice {}", holder_, index())});
    else
      static_cast<void>(co_await wait(std::min(until, now + kLaneLookEvery)));
  }
  if (!status_) co_return status_;
  // Bytes after the end would be left out of a slice that counts as whole.
  TARN_CHECK(!ended_);
  queue_.push_back({std::move(keeper), bytes});
  TARN_CHECK(queue_.size() <= queued_max_);
  changed_.cancel();
  co_return Status();
}

/// The next bytes that are to go there; nothing: all have gone.
Task<Result<std::optional<SliceLane::Bytes>>> SliceLane::next() {
  while (queue_.empty() && !ended_ && status_)
    static_cast<void>(co_await wait(std::chrono::steady_clock::time_point::max()));
  if (!status_) co_return fail(status_.error());
  if (queue_.empty()) co_return std::nullopt;
  Bytes bytes = std::move(queue_.front());
  queue_.pop_front();
  changed_.cancel();
  co_return std::optional(std::move(bytes));
}

Task<Status> SliceLane::carry(SliceUpload upload) {
  while (true) {
    CO_TRY(const auto bytes, co_await next());
    if (!bytes) co_return co_await upload.finish();
    CO_TRY_OK(co_await upload.write(bytes->span));
  }
}

Task<Status> SliceLane::store(std::unique_ptr<NewSlice> slice) {
  WrittenSlice written;
  if (is_full_copy()) written.digests.emplace();
  std::optional<Bytes> kept;  // did not fit into the last buffer
  // NOLINTNEXTLINE(cppcoreguidelines-avoid-capturing-lambda-coroutines): outlives write_from()
  const auto fill = [&](std::span<std::byte> room) -> Task<Result<std::size_t>> {
    std::size_t have = 0;
    while (true) {
      if (!kept) {
        CO_TRY(kept, co_await next());
      }
      // Bytes that never fit would end the slice.
      TARN_CHECK(!kept || kept->span.size() <= room.size());
      if (!kept || kept->span.size() > room.size() - have) break;
      std::memcpy(room.data() + have, kept->span.data(), kept->span.size());
      have += kept->span.size();
      kept.reset();
    }
    if (written.digests) written.digests->update(room.first(have));
    co_return have;
  };
  CO_TRY(written.bytes, co_await write_from(slice->file(), 0, fill));
  written.slice = std::move(slice);
  co_return keep_slice(node_, write_.token, std::move(written));
}

Task<Status> SliceLane::finish() {
  ended_ = true;
  changed_.cancel();
  while (!done_ && status_) {
    if (drive_ == nullptr && !has_lease()) {
      fail_with({Errc::unavailable, fmt::format("target t[{}] has lost its lease", holder_)});
      continue;
    }
    // A write that has begun on a drive that hangs sends no answer.
    if (const Status usable = drive_ ? drive_->usable() : Status(); !usable) {
      fail_with(usable.error());
      continue;
    }
    static_cast<void>(co_await wait(std::chrono::steady_clock::now() + kLaneLookEvery));
  }
  co_return status_;
}

Task<Status> SliceLane::seal(const io::ObjectAttribute& object, Generation written,
                             Generation named_by, bool anew) {
  const ec::SliceId slice{ec::SetId(write_.key.set), write_.geometry, write_.key.index};
  CO_TRY(auto order, seal_order(object, slice, written, named_by, write_.token));
  order.anew = anew;
  const bool here = holder_ == node_.id;
  const Status sealed = here ? co_await seal_slice(node_, std::move(order))
                             : co_await seal_at(node_, holder_, std::move(order));
  if (!sealed) fail_with(sealed.error());
  co_return sealed;
}

Task<void> SliceLane::abandon(std::shared_ptr<SliceLane> self) {
  if (self->holder_ == self->node_.id) {
    static_cast<void>(self->node_.open_slices.take(self->token()));
  } else {
    static_cast<void>(co_await abandon_at(self->node_, self->holder_, self->token()));
  }
}

void SliceLane::give_up() {
  if (done_ && status_) {
    // All of it is there: it would go by itself, somewhat later.
    node_.aside.spawn(changed_.get_executor(), "drop of a slice", abandon(shared_from_this()));
    return;
  }
  fail_with({Errc::cancelled, "the object is not wanted any more"});
  changed_.cancel();
}

}  // namespace tarn::target
