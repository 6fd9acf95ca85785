#include "target/store/slices_here.h"

#include <algorithm>
#include <set>

#include "common/base/check.h"
#include "common/base/fail_point.h"
#include "common/obs/log.h"
#include "target/drive/slice_ids.h"
#include "target/drive/space_rules.h"
#include "target/store/object_store.h"

namespace tarn::target {
namespace {

constexpr int kSlicesHereOpenAttemptsMax = 3;

DriveView::Room room_of(const Drive& drive, const SpaceLimits& limits, std::uint64_t bytes) {
  const io::Space space = drive.space();
  if (!has_room(space, limits, bytes, limits.out_of_space)) return DriveView::Room::none;
  const bool free = !drive.suspect() && has_room(space, limits, bytes, limits.high_watermark);
  return free ? DriveView::Room::free : DriveView::Room::above_watermark;
}

}  // namespace

std::vector<std::size_t> drives_for_slice(std::span<const DriveView> views, std::size_t rank) {
  std::size_t usable = 0;
  std::size_t slices = 0;
  for (const DriveView& view : views) {
    if (!view.takes) continue;
    ++usable;
    slices += view.slices;
  }
  std::vector<std::size_t> out;
  std::multimap<std::size_t, std::size_t> shared;  // by the number of slices, else as they come
  for (const auto room : {DriveView::Room::free, DriveView::Room::above_watermark}) {
    // Above the watermark, the one with the most room first.
    std::multimap<std::uint64_t, std::size_t, std::greater<>> tight;
    for (std::size_t i = 0; i < views.size(); ++i) {
      const std::size_t at = (rank + i) % views.size();
      if (!views[at].takes || views[at].room != room) continue;
      if (views[at].slices > 0) {
        shared.emplace(views[at].slices, at);
      } else if (room == DriveView::Room::free) {
        out.push_back(at);
      } else {
        tight.emplace(views[at].left, at);
      }
    }
    for (const auto& [left, at] : tight) out.push_back(at);
  }
  TARN_CHECK(out.size() + shared.size() <= usable);
  // Two of a set on one drive die together.
  if (std::max(rank, slices) < usable) return out;
  for (const auto& [count, at] : shared) out.push_back(at);
  return out;
}

NewSlice::NewSlice(SlicesHere& all, SliceKey key, std::unique_ptr<WorkFile> file)
    : all_(all), key_(std::move(key)), file_(std::move(file)) {
  const MutexLock guard(all_.mutex_);
  all_.writing_.emplace(key_, &file_->drive());
}

NewSlice::~NewSlice() {
  const MutexLock guard(all_.mutex_);
  const auto [begin, end] = all_.writing_.equal_range(key_);
  const auto ours =
      std::find_if(begin, end, [this](const auto& each) { return each.second == &file_->drive(); });
  TARN_CHECK(ours != end);
  all_.writing_.erase(ours);
}

/// One caller at a time seals, raises, drops or moves a slice.
Task<NameLocks::Held> SlicesHere::lock(const SliceKey& key) {
  co_return co_await store_.locks().acquire(
      fmt::format("s/{}/{}/{:016x}/{}", raw(key.bucket), key.name, key.set, key.index));
}

std::vector<SlicesHere::Writing> SlicesHere::being_written(const SliceKey& of_set) const {
  std::vector<Writing> out;
  const MutexLock guard(mutex_);
  for (auto at = writing_.lower_bound({of_set.bucket, of_set.name, of_set.set, 0});
       at != writing_.end() && same_set(at->first, of_set); ++at)
    out.push_back({at->first.index, at->second});
  return out;
}

/// A drive that cannot report what it has is not chosen.
Task<DriveView> SlicesHere::view(Drive& drive, const SliceKey& key, const Wanted& wanted,
                                 const std::vector<Writing>& writing) {
  DriveView view;
  view.takes = &drive != wanted.not_on && drive.takes_files() && drive.in_service();
  if (!view.takes) co_return view;
  view.room = room_of(drive, store_.space_limits(), wanted.bytes.value_or(0));
  view.left = drive.space().free;
  const auto there = co_await drive.slices_of(key.bucket, key.name, key.set);
  view.takes = there.has_value();
  if (!there) co_return view;
  std::set<std::uint8_t> slices;
  for (const auto& [other, record] : *there) slices.insert(other.index);
  for (const Writing& each : writing)
    if (each.drive == &drive) slices.insert(each.index);
  slices.erase(key.index);  // the one that it replaces
  view.slices = slices.size();
  co_return view;
}

/// The drives that are there, as the name prefers them.
std::vector<std::shared_ptr<Drive>> SlicesHere::in_order(const std::string& uname) const {
  const auto placed = store_.placed_drives();
  std::vector<cluster::Candidate> candidates;
  candidates.reserve(placed.size());
  for (const auto& each : placed) candidates.push_back(each.candidate);
  std::vector<std::shared_ptr<Drive>> out;
  for (const std::size_t i : cluster::placement_order(candidates, cluster::placement_digest(uname)))
    if (placed[i].drive != nullptr) out.push_back(placed[i].drive);
  return out;
}

Task<Result<std::unique_ptr<NewSlice>>> SlicesHere::create(ObjectName name, SliceKey key,
                                                           Wanted wanted) {
  // One after the other, so that two that come at once do not choose one drive. Slices that are
  // being written are looked at first: one that is sealed meanwhile has its entry before it ceases
  // to be one of them.
  const auto held = co_await store_.locks().acquire(
      fmt::format("w/{}/{}/{:016x}", raw(key.bucket), key.name, key.set));
  const auto writing = being_written(key);
  const auto drives = in_order(name.uname);
  std::vector<DriveView> views;
  for (const auto& drive : drives) {
    const DriveView seen = co_await view(*drive, key, wanted, writing);
    views.push_back(seen);
  }
  const bool any = std::any_of(views.begin(), views.end(), [](const auto& v) { return v.takes; });
  Error last{any ? Errc::no_space : Errc::unavailable,
             fmt::format("no drive of this target takes slice {} of {} now", key.index, key.name)};
  for (const std::size_t at : drives_for_slice(views, wanted.rank)) {
    if (wanted.alone && views[at].slices > 0) break;
    auto file = co_await drives[at]->create(wanted.bytes, views[at].room != DriveView::Room::free);
    if (file && !drives[at]->takes_files()) continue;  // the drive goes, with all that is there
    if (file) co_return std::make_unique<NewSlice>(*this, std::move(key), std::move(*file));
    last = file.error();
  }
  co_return fail(last);
}

/// Finds it on drives in service, the newest first. An error when one of them does not answer and
/// the other drives have nothing.
Task<Result<std::vector<Located>>> SlicesHere::find_all(SliceKey key) {
  std::vector<Located> found;
  std::optional<Error> failed;
  const auto drives = store_.drives();
  for (const auto& drive : drives) {
    if (!drive->in_service()) continue;
    auto record = co_await drive->find_slice(key);
    if (!record) failed = record.error();
    if (record && *record) found.push_back({drive.get(), std::move(**record)});
  }
  if (found.empty() && failed) co_return fail(std::move(*failed));
  std::sort(found.begin(), found.end(), [](const Located& a, const Located& b) {
    return a.record.generation > b.record.generation;
  });
  co_return found;
}

/// Drops those that something as new has replaced. Those that cannot go now are found again.
/// Returns how many went.
Task<std::size_t> SlicesHere::drop_others(SliceKey key, Generation up_to, const Drive* but) {
  std::size_t gone = 0;
  const auto drives = store_.drives();
  for (const auto& drive : drives) {
    if (drive.get() == but || !drive->in_service()) continue;
    const auto dropped = co_await drive->drop_slice(key, up_to);
    if (dropped && *dropped) ++gone;
    if (!dropped)
      obs::log("target").warn("older slice not removed object={} slice={} drive={} err={}",
                              key.name, key.index, drive->path(), dropped.error().message);
  }
  co_return gone;
}

Task<Result<Drive::Sealed>> SlicesHere::seal(NewSlice& slice, Drive::SealOrder order) {
  const SliceKey key = slice.key();
  const Generation generation = order.attribute.record.generation;
  if (!order.attribute.record.slice || key_of(order.attribute) != key)
    co_return fail(Errc::invalid_argument, "what was written is slice {} of {}", key.index,
                   key.name);
  const auto held = co_await lock(key);
  CO_TRY(const auto found, co_await find_all(key));
  if (!found.empty()) {
    const Generation newest = found.front().record.generation;
    if (newest > generation) co_return Drive::Sealed::had_newer;
    if (newest == generation && !order.anew) co_return Drive::Sealed::had_it;
  }
  order.anew = true;
  Drive& drive = slice.file().drive();
  CO_TRY(const auto sealed, co_await drive.seal(slice.file(), std::move(order)));
  if (sealed == Drive::Sealed::done) co_await drop_others(key, generation, &drive);
  co_return sealed;
}

Task<Result<bool>> SlicesHere::replace(NewSlice& slice, Drive::SealOrder order, Drive& from) {
  const SliceKey key = slice.key();
  const auto held = co_await lock(key);
  CO_TRY(const auto now, co_await from.find_slice(key));
  if (!now || now->slice != order.attribute.record.slice) co_return false;
  CO_TRY(const auto found, co_await find_all(key));
  Generation newest = now->generation;
  if (!found.empty()) newest = std::max(newest, found.front().record.generation);
  order.attribute.record.generation = newest;
  order.anew = true;
  Drive& drive = slice.file().drive();
  CO_TRY(const auto sealed, co_await drive.seal(slice.file(), std::move(order)));
  if (sealed != Drive::Sealed::done) co_return false;
  CO_FAIL_POINT("slice.before_drop_moved");
  co_await drop_others(key, newest, &drive);
  co_return true;
}

Task<Result<std::optional<Located>>> SlicesHere::find(SliceKey key) {
  CO_TRY(auto found, co_await find_all(std::move(key)));
  if (found.empty()) co_return std::optional<Located>();
  co_return std::optional(std::move(found.front()));
}

Task<Result<std::shared_ptr<OpenObject>>> SlicesHere::open(SliceKey key, bool unless_slow) {
  // A slice may move to another drive between the look and the opening.
  for (int attempt = 0; attempt < kSlicesHereOpenAttemptsMax; ++attempt) {
    CO_TRY(const auto found, co_await find(key));
    if (!found) break;
    if (unless_slow && found->drive->is_slow())
      co_return fail(Errc::timeout, "slice {} of {} is on drive {}, which is slow", key.index,
                     key.name, found->drive->path());
    CO_TRY(auto slice, co_await found->drive->open_slice(key));
    if (slice) co_return std::move(slice);
  }
  if (has_full_view())
    co_return fail(Errc::object_not_found, "slice {} of {} is not here", key.index, key.name);
  co_return fail(Errc::unavailable, "slice {} of {} may be on a drive that is away", key.index,
                 key.name);
}

bool SlicesHere::has_full_view() const {
  const auto drives = store_.drives();
  return store_.missing().empty() &&
         std::all_of(drives.begin(), drives.end(),
                     [](const auto& each) { return each->in_service(); });
}

Task<Result<bool>> SlicesHere::drop(SliceKey key, Generation up_to) {
  const auto held = co_await lock(key);
  bool any = false;
  std::optional<Error> failed;
  const auto drives = store_.drives();
  for (const auto& drive : drives) {
    if (!drive->in_service()) continue;
    const auto dropped = co_await drive->drop_slice(key, up_to);
    if (!dropped) failed = dropped.error();
    any = any || (dropped && *dropped);
  }
  if (failed) co_return fail(std::move(*failed));
  co_return any;
}

Task<Result<bool>> SlicesHere::any() {
  {
    const MutexLock guard(mutex_);
    if (!writing_.empty()) co_return true;
  }
  const auto drives = store_.drives();
  for (const auto& drive : drives) {
    CO_TRY(const bool has, co_await drive->has_slices());
    if (has) co_return true;
  }
  co_return false;
}

}  // namespace tarn::target
