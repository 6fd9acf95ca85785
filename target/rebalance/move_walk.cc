#include "target/rebalance/move_walk.h"

#include <algorithm>

#include "common/base/gather.h"
#include "target/node/retry.h"

namespace tarn::target {
namespace {

constexpr std::size_t kMoveWalkPageEntries = 256;
constexpr std::uint64_t kPageBytes = 4ULL << 30U;
constexpr std::size_t kMoveWalkLookAtOnce = 20'000;  // records in one turn of the drive
constexpr std::size_t kMoveWalkWorkersOfSolidDrive = 4;
/// Workers beyond those that are allowed look so often whether more are.
constexpr auto kMoveWalkIdleLook = std::chrono::milliseconds(200);

bool ends_walk(const Error& error) {
  return error.code == Errc::cancelled || error.code == Errc::conflict;
}

/// Returns one status for several: that the walk ended, else the first error.
Status summary_of(const std::vector<Status>& all) {
  Status out;
  for (const Status& each : all)
    if (!each && (out || (ends_walk(each.error()) && !ends_walk(out.error())))) out = each;
  return out;
}

}  // namespace

std::size_t MoveWalk::workers(const Drive& drive) const {
  if (const auto asked = pace_.limits.workers.load(); asked > 0)
    return std::min(asked, MoveLimits::kWorkersMax);
  return drive.kind() == io::DriveKind::rotational ? 1 : kMoveWalkWorkersOfSolidDrive;
}

void MoveWalk::note_failure(std::uint64_t names, const Error& error) {
  if (progress_.counts.failed == 0) first_error_ = error.message;
  progress_.counts.failed += names;
}

Task<Status> MoveWalk::run() {
  for (int fruitless = 0;;) {
    progress_.counts.failed = 0;
    handled_ = 0;
    // A drive that does not answer does not hold up the other drives.
    const Status counted = co_await count();
    if (!counted && ends_walk(counted.error())) co_return counted;
    if (progress_.left_names == 0) {
      CO_TRY_OK(counted);
      break;
    }
    const Status moved = co_await move();
    CO_TRY_OK(moved);
    if (progress_.counts.failed > 0)
      co_return fail(Errc::io, "{} names could not be moved, the first: {}",
                     progress_.counts.failed, first_error_);
    round_done();
    if (handled_ > 0) {
      fruitless = 0;
      continue;
    }
    const Error changing{
        Errc::unavailable,
        fmt::format("{} names are being changed and could not be moved yet", progress_.left_names)};
    const bool again = co_await try_again(changing, fruitless, pace_.stop);
    CO_TRY_OK(pace_.go_on());
    if (!again) co_return fail(changing);
  }
  if (!node_.store.missing().empty())
    co_return fail(Errc::unavailable, "drive {} is away: what it holds was not moved",
                   node_.store.missing().begin()->first);
  progress_.clean = true;
  co_return Status();
}

/// Counts what there is to do.
Task<Status> MoveWalk::count() {
  state_ = node_.view.state();
  progress_.left_names = progress_.left_bytes = 0;
  std::vector<Task<Status>> counts;
  const auto drives = node_.store.drives();  // they stay while they are walked over
  counts.reserve(drives.size());
  for (const auto& drive : drives) counts.push_back(count_drive(*drive));
  const auto all = co_await gather(std::move(counts));
  co_return summary_of(all);
}

Task<Status> MoveWalk::count_drive(Drive& drive) {
  for (const auto& [name, bucket] : state_->bmd.buckets) {
    Page page;
    do {
      CO_TRY_OK(pace_.go_on());
      Count found;
      CO_TRY(page, co_await next_page(drive, bucket, page.last, &found));
      progress_.left_names += found.names;
      progress_.left_bytes += found.bytes;
    } while (page.more);
  }
  co_return Status();
}

Task<Status> MoveWalk::move() {
  ended_ = false;
  std::vector<Task<Status>> moves;
  const auto drives = node_.store.drives();  // they stay while they are walked over
  moves.reserve(drives.size());
  for (const auto& drive : drives) moves.push_back(move_drive(*drive));
  const auto all = co_await gather(std::move(moves));
  co_return summary_of(all);
}

Task<Status> MoveWalk::move_drive(Drive& drive) {
  for (const auto& [name, bucket] : state_->bmd.buckets) {
    Page page;
    do {
      CO_TRY(page, co_await next_page(drive, bucket, page.last, nullptr));
      const Status prepared = co_await prepare(page.entries);
      if (!prepared) ended_ = true;
      CO_TRY_OK(prepared);
      // All that there may ever be: how many are allowed can change before the page is through.
      asio::steady_timer idle(co_await asio::this_coro::executor);
      std::vector<Task<Status>> all;
      for (std::size_t i = 0; i < std::min(MoveLimits::kWorkersMax, page.entries.size()); ++i)
        all.push_back(work(drive, page, i, idle));
      const auto taken = co_await gather(std::move(all));
      CO_TRY_OK(summary_of(taken));
    } while (page.more);
  }
  co_return Status();
}

/// Returns the records after `after` that are to be moved; with `only_count` merely counts them.
Task<Result<MoveWalk::Page>> MoveWalk::next_page(Drive& drive, const cluster::BucketRecord& bucket,
                                                 std::string after, Count* only_count) {
  Page page;
  page.last = after;
  const BucketOnDrives lies = on_drives(bucket.id, &bucket);
  std::size_t looked = 0;
  std::uint64_t bytes = 0;
  const auto visit = [&](std::string_view name, io::ObjectRecord record) -> Index::Step {
    page.more = looked == kMoveWalkLookAtOnce || page.entries.size() == kMoveWalkPageEntries ||
                bytes > kPageBytes;
    if (page.more) return {.stop = true, .skip_to = {}};
    ++looked;
    page.last = name;
    std::string uname = bucket.placement_name(name);
    if (!concerns(drive, bucket, uname)) return {};
    if (only_count != nullptr && lies.copies == 0) {
      ++only_count->names;
      only_count->bytes += record.file_bytes();
      return {};
    }
    bytes += record.file_bytes();
    page.entries.push_back(
        {&bucket,
         {bucket.id, std::move(uname), std::string(name), lies.copies, lies.is_refetchable},
         std::move(record),
         {},
         false,
         false});
    return {};
  };
  CO_TRY_OK(co_await drive.walk(bucket.id, "", std::move(after), visit));
  if (lies.copies > 0) co_await leave_to_others(drive, page);
  for (const WalkEntry& entry : page.entries) {
    if (only_count == nullptr) break;
    ++only_count->names;
    only_count->bytes += entry.record.file_bytes();
  }
  co_return page;
}

/// A name with several copies is moved once: by the walk over the drive that is the first to hold
/// the newest one. On a disabled drive, what lies nowhere else stays an entry, and fails.
Task<void> MoveWalk::leave_to_others(const Drive& drive, Page& page) {
  std::vector<WalkEntry> ours;
  for (WalkEntry& entry : page.entries) {
    const auto found = co_await node_.store.find_seen(entry.name);
    const bool first = found && !found->empty() && found->front().drive == &drive;
    const bool unseen = !found || (found->empty() && drive.disabled());
    if (first || unseen) ours.push_back(std::move(entry));
  }
  page.entries = std::move(ours);
}

/// One worker, which ends together with those that wait to be allowed.
Task<Status> MoveWalk::work(Drive& drive, Page& page, std::size_t worker,
                            asio::steady_timer& idle) {
  const Status done = co_await take_entries(drive, page, worker, idle);
  idle.cancel();
  co_return done;
}

/// Takes entries of the page until there are none left.
Task<Status> MoveWalk::take_entries(Drive& drive, Page& page, std::size_t worker,
                                    asio::steady_timer& idle) {
  while (page.next < page.entries.size() && !ended_) {
    if (worker >= workers(drive)) {
      CO_TRY_OK(pace_.go_on());
      // Shared by all workers that wait: one that moves its end wakes the other workers.
      const auto now = std::chrono::steady_clock::now();
      if (idle.expiry() <= now) idle.expires_at(now + kMoveWalkIdleLook);
      static_cast<void>(co_await idle.async_wait(kTuple));
      continue;
    }
    const WalkEntry& entry = page.entries[page.next++];
    if (entry.given_up) continue;
    CO_TRY_OK(pace_.go_on());
    const auto done = co_await handle_patiently(drive, entry);
    if (!done && ends_walk(done.error())) {
      ended_ = true;
      co_return fail(done.error());
    }
    if (!done && done.error().code != Errc::bucket_not_found) {
      given_up(entry, done.error());
      note_failure(1, {done.error().code, entry.name.uname + ": " + done.error().message});
      continue;
    }
    // A destroyed bucket's records go by themselves.
    if (done && !*done) continue;
    ++handled_;
    progress_.left_names -= std::min<std::uint64_t>(progress_.left_names, 1);
    progress_.left_bytes -= std::min(progress_.left_bytes, entry.record.file_bytes());
  }
  co_return Status();
}

Task<Result<bool>> MoveWalk::handle_patiently(Drive& drive, const WalkEntry& entry) {
  for (int attempts = 0;;) {
    auto done = co_await handle(drive, entry);
    if (done) co_return done;
    const bool again = co_await try_again(done.error(), attempts, pace_.stop);
    CO_TRY_OK(pace_.go_on());
    if (!again) co_return done;
  }
}

}  // namespace tarn::target
