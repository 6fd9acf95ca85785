#include "target/coded/slice_holder.h"

#include <set>

#include "common/base/event.h"
#include "common/base/fail_point.h"
#include "common/base/gather.h"
#include "common/base/pause.h"
#include "common/obs/log.h"
#include "target/coded/holder_calls.h"
#include "target/node/bad_slices.h"
#include "target/node/unless_hung.h"

namespace tarn::target {
namespace {

constexpr std::chrono::seconds kSliceHolderLookEvery{5};
constexpr std::size_t kDropsSideBySide = 4;
/// Slices of one call that are looked for at once; each asks all drives. One after the other took
/// longer than the caller waits, for kSlicesAtOnce of them on busy drives.
constexpr std::size_t kStatesAtOnce = 8;
/// A slice waits so long for room, and its writer with it.
constexpr std::chrono::seconds kSliceRoomPatience{3};

std::set<std::string> drives_away(const ObjectStore& store) {
  std::set<std::string> out;
  for (const auto& [path, why] : store.missing()) out.insert(path);
  for (const auto& drive : store.drives())
    if (!drive->in_service()) out.insert(drive->path());
  return out;
}

/// State of a slice that is not here: with a drive that is away, also since just now, it may come
/// back.
SliceSeen absent_here(TargetNode& node) {
  const BootTime now = node.clock.boot_time();
  node.drives_away.learn(drives_away(node.store), now);
  return {node.drives_away.any_expected(now) ? SliceState::waiting : SliceState::missing};
}

/// Another number when a drive was opened of which files were gone, or unreadable: owners look what
/// is missing of their objects. 0: there is none.
std::uint64_t lost_at_opening(const ObjectStore& store) {
  std::uint64_t out = 0;
  for (const auto& drive : store.drives()) {
    const RecoveryReport& report = drive->recovery();
    if (report.lost_records + report.torn_files + report.unreadable_files > 0)
      out ^= cluster::placement_digest(drive->id());
  }
  return out;
}

Result<cluster::BucketRecord> bucket_of(const TargetNode& node, BucketId id) {
  const auto state = node.view.state();
  const auto* bucket = state->bmd.find(id);
  if (bucket != nullptr) return *bucket;
  return fail(Errc::bucket_not_found, "bucket {} does not exist (any more)", raw(id));
}

/// The flags of this target, as the newest map that it knows has them.
std::uint64_t own_flags(const TargetNode& node) {
  const auto state = node.view.state();
  const cluster::Node* self = state->map.find(node.id);
  return self == nullptr ? 0 : self->flags;
}

bool leaves(std::uint64_t flags) {
  return (flags & (cluster::kMaintenance | cluster::kDecommission)) != 0;
}

/// Refuses new slices while this target leaves, so that all slices are away some time.
Status check_stays(const TargetNode& node) {
  if (!leaves(own_flags(node))) return {};
  return fail(Errc::unavailable,
              "this target is in maintenance or is being decommissioned: it takes no slices");
}

Task<Result<Drive::Sealed>> seal_written(TargetNode& node, WrittenSlice written,
                                         Drive::SealOrder order) {
  co_return co_await node.store.slices().seal(*written.slice, std::move(order));
}

/// A place for a slice, after an eviction where no drive has room.
Task<Result<std::unique_ptr<NewSlice>>> create_with_room(TargetNode& node, ObjectName name,
                                                         const SliceKey& key,
                                                         const SlicesHere::Wanted& wanted) {
  auto slice = co_await node.store.slices().create(name, key, wanted);
  if (slice || slice.error().code != Errc::no_space || node.room == nullptr) co_return slice;
  const auto until = std::chrono::steady_clock::now() + kSliceRoomPatience;
  const bool made = co_await node.room->make_room(name, wanted.bytes.value_or(0), until);
  if (!made) co_return slice;
  co_return co_await node.store.slices().create(std::move(name), key, wanted);
}

Task<Status> drop_here(TargetNode& node, const SliceDrop& drop) {
  const auto dropped =
      co_await unless_hung(node, nullptr, node.store.slices().drop(drop.key, drop.up_to));
  // The owner is asked about the slice again when the drive is back.
  if (!dropped)
    obs::log("target").warn("slice not dropped object={} slice={} err={}", drop.key.name,
                            drop.key.index, dropped.error().message);
  co_return Status();
}

/// Some side by side: they share the syncs of an index.
Task<void> drop_due(TargetNode& node, BootTime until) {
  const auto due = node.slice_drops.take_due(until);
  const auto drop = [&](std::size_t i) { return drop_here(node, due[i]); };
  (void)co_await gather_at_most(kDropsSideBySide, due.size(), drop);
}

}  // namespace

Task<Result<std::unique_ptr<NewSlice>>> begin_slice(TargetNode& node, const SliceWrite& write) {
  CO_TRY(const auto bucket, bucket_of(node, write.key.bucket));
  const SlicesHere::Wanted wanted{.rank = write.rank, .bytes = write.bytes};
  CO_TRY_OK(check_stays(node));
  CO_TRY(auto slice,
         co_await create_with_room(node, name_in(bucket, write.key.name), write.key, wanted));
  if (write.purpose == TurnFor::background) slice->file().write_in_background();
  // A look for slices since this target leaves has seen this one, or this check sees that it
  // leaves.
  CO_TRY_OK(check_stays(node));
  co_return slice;
}

Status keep_slice(TargetNode& node, SliceToken token, WrittenSlice written) {
  if (node.open_slices.add(token, std::move(written), node.clock.boot_time())) return {};
  return fail(Errc::conflict, "a slice was written under this token before");
}

Task<Status> seal_slice(TargetNode& node, SliceSeal seal) {
  auto written = node.open_slices.take(seal.token);
  if (!written)
    co_return fail(Errc::not_found, "no slice was written under this token, or too long ago");
  const io::ObjectRecord& record = seal.attribute.record;
  Drive::SealOrder order{std::move(seal.attribute), std::move(seal.label), {}, seal.anew};
  if (written->digests) {
    if (written->digests->xxh64() != record.xxh64)
      co_return fail(Errc::checksum_mismatch, "the full copy of {} is not what came here",
                     order.attribute.name);
    order.checksums = written->digests->blocks();
  }
  CO_TRY_OK(check_stays(node));
  CO_TRY(const auto bucket, bucket_of(node, order.attribute.bucket_id));
  order.attribute.bucket = bucket.placed_as();
  CO_FAIL_POINT("slice.before_seal");
  const SliceKey key = written->slice->key();
  const auto drive = node.store.drive_at(written->slice->file().drive().path());
  if (drive == nullptr) co_return fail(Errc::unavailable, "its drive has just been detached");
  CO_TRY(
      const auto sealed,
      co_await unless_hung(node, drive, seal_written(node, std::move(*written), std::move(order))));
  CO_FAIL_POINT("slice.sealed");
  if (sealed == Drive::Sealed::done) node.bad_slices.erase(key);
  if (sealed != Drive::Sealed::had_newer) co_return Status();
  co_return fail(Errc::conflict, "slice {} of {} is here with a higher generation", key.index,
                 key.name);
}

void drop_slice_later(TargetNode& node, SliceDrop drop) {
  node.slice_drops.add(std::move(drop), node.clock.boot_time());
}

Task<void> drop_slices_now(TargetNode& node) {
  co_await drop_due(node, node.clock.boot_time() + SliceDrops::kDelay);
}

namespace {

Task<SliceSeen> state_here(TargetNode& node, SliceKey key) {
  const SliceSeen waiting{SliceState::waiting};
  if (node.bad_slices.contains(key)) co_return absent_here(node);
  const auto found = co_await node.store.slices().find(key);
  if (!found) co_return waiting;
  if (!*found) co_return absent_here(node);
  // Its file as well: an entry is soon believed.
  auto opened = co_await (*found)->drive->open_slice(key);
  // The slice has moved to another drive meanwhile, or was dropped.
  if (opened && *opened == nullptr) opened = co_await node.store.slices().open(key);
  if (opened)
    co_return SliceSeen{SliceState::good, cluster::placement_digest((*found)->drive->id())};
  note_if_bad(node, key, opened.error());
  co_return is_bad_file(opened.error()) ? absent_here(node) : waiting;
}

Task<Status> note_state(TargetNode& node, const SliceKey& key, SliceSeen& state) {
  state = co_await state_here(node, key);
  co_return Status();
}

}  // namespace

Task<std::vector<SliceSeen>> states_here(TargetNode& node, std::vector<SliceKey> keys) {
  std::vector<SliceSeen> states(keys.size());
  const auto look = [&](std::size_t i) { return note_state(node, keys[i], states[i]); };
  (void)co_await gather_at_most(kStatesAtOnce, keys.size(), look);
  co_return states;
}

void note_if_bad(TargetNode& node, const SliceKey& key, const Error& met) {
  if (is_bad_file(met)) node.bad_slices.add(key);
}

Task<void> tell_of_bad_slices(TargetNode& node) {
  for (const SliceKey& key : node.bad_slices.to_tell(node.clock.boot_time())) {
    const auto state = node.view.state();
    const auto* bucket = state->bmd.find(key.bucket);
    const auto here = co_await node.store.slices().find(key);
    if (bucket == nullptr || (here && !*here)) {
      node.bad_slices.erase(key);
      continue;
    }
    const auto digest = cluster::placement_digest(name_in(*bucket, key.name).uname);
    const Status told = co_await tell_bad(
        node, std::string(cluster::writer_of(*state->ownership->map, digest)), key);
    if (!told)
      obs::log("target").warn("owner not told of a bad slice object={} slice={} err={}", key.name,
                              key.index, told.error().message);
  }
}

Task<Result<bool>> is_needed_for_slices(TargetNode& node) {
  const std::uint64_t flags = own_flags(node);
  if (!leaves(flags) || (flags & cluster::kGivenUp) != 0) co_return false;
  co_return co_await node.store.slices().any();
}

Task<void> look_after_slices(TargetNode& node) {
  while (true) {
    node.drives_away.learn(drives_away(node.store), node.clock.boot_time());
    node.owned.take_lost_drives(node.drives_away.believed_lost(node.clock.boot_time()) ^
                                lost_at_opening(node.store));
    co_await pause_until(next_tick(kSliceHolderLookEvery));
    const BootTime now = node.clock.boot_time();
    const std::size_t given_up = node.open_slices.drop_older(now - OpenSlices::kKept);
    if (given_up > 0) obs::log("target").info("slices never sealed removed count={}", given_up);
    if (SAFETY("safety.drop_later"))
      co_await drop_due(node, now);
    else
      co_await drop_slices_now(node);
  }
}

}  // namespace tarn::target
