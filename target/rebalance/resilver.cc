// Moves objects between the drives of this target: published in place under the same generation
// first, and only then taken from where it lay, so that a crash leaves one or both.

#include "target/rebalance/resilver.h"

#include <algorithm>

#include "common/api/mirror_props.h"
#include "common/base/fail_point.h"
#include "common/obs/log.h"
#include "target/drive/block_reader.h"
#include "target/drive/block_writer.h"
#include "target/rebalance/move_walk.h"
#include "target/rebalance/slice_moves.h"

namespace tarn::target {
namespace {

class Resilver final : public MoveWalk {
 public:
  using MoveWalk::MoveWalk;

 private:
  [[nodiscard]] bool concerns(const Drive& drive, const cluster::BucketRecord& bucket,
                              const std::string& uname) const override;
  Task<Status> prepare(std::vector<WalkEntry>&) override { co_return Status(); }
  Task<Result<bool>> handle(Drive& drive, const WalkEntry& entry) override;

  Task<Result<std::unique_ptr<WorkFile>>> copy_to_place(Drive& place, Drive& drive,
                                                        const WalkEntry& entry, Digests& digests);
  Task<Status> publish_in_place(const WalkEntry& entry, WorkFile& file, const Digests& digests,
                                std::vector<Located> found);
};

/// Copies of mirrored buckets lie where their own passes put them (bucket_mirror.h). Files on a
/// disabled drive are not read, and files put there could not be.
bool Resilver::concerns(const Drive& drive, const cluster::BucketRecord& bucket,
                        const std::string& uname) const {
  if (api::copies_of(bucket.props) > 0) return false;
  const BucketOnDrives lies = on_drives(bucket.id, &bucket);
  const ObjectName name{bucket.id, uname, "", 0, lies.is_refetchable};
  const Drive* place = node_.store.drive_for(name);
  return place != nullptr && place != &drive && !place->disabled() && !drive.disabled();
}

/// The record on `drive` among `found`, null when there is none.
const Located* record_on(const Drive& drive, const std::vector<Located>& found) {
  const auto at =
      std::find_if(found.begin(), found.end(), [&](const Located& l) { return l.drive == &drive; });
  return at == found.end() ? nullptr : &*at;
}

ResilverStep step_of(const ObjectStore& store, const std::vector<Located>& found,
                     const Drive& drive, const Drive& place) {
  const auto number = [&](const Drive& of) {
    const auto& drives = store.drives();
    return static_cast<std::size_t>(
        std::find_if(drives.begin(), drives.end(), [&](const auto& d) { return d.get() == &of; }) -
        drives.begin());
  };
  std::vector<Placed> all;
  all.reserve(found.size());
  for (const Located& each : found) all.push_back({number(*each.drive), each.record.generation});
  return resilver_step(all, number(drive), number(place));
}

Task<Result<bool>> Resilver::handle(Drive& drive, const WalkEntry& entry) {
  Drive* const place = node_.store.drive_for(entry.name);
  if (place == nullptr) co_return false;
  CO_TRY(const auto before, co_await node_.store.find_all(entry.name));
  const Located* here = record_on(drive, before);
  const bool has_bytes = here != nullptr && here->record.kind == io::ObjectRecord::Kind::object;
  Digests digests;
  std::unique_ptr<WorkFile> file;
  if (has_bytes && step_of(node_.store, before, drive, *place) == ResilverStep::move) {
    CO_TRY(file, co_await copy_to_place(*place, drive, entry, digests));
  }
  const auto held = co_await node_.store.locks().acquire(entry.name.key());
  CO_TRY_OK(pace_.go_on());
  CO_TRY(auto found, co_await node_.store.find_all(entry.name));
  const Located* now = record_on(drive, found);
  if (now == nullptr) co_return true;  // the record has gone, or the drive has
  if (here == nullptr || now->record != here->record) co_return false;
  switch (step_of(node_.store, found, drive, *place)) {
    case ResilverStep::nothing: co_return true;
    case ResilverStep::erase:
      ++progress_.counts.deleted;
      CO_TRY_OK(co_await node_.store.forget(entry.name, {*now}));
      co_return true;
    case ResilverStep::move: break;
  }
  if (has_bytes && !file) co_return false;  // was a leftover when we looked
  if (file) {
    CO_TRY_OK(co_await publish_in_place(entry, *file, digests, std::move(found)));
  } else {
    // A tombstone goes first to its place, where an older version may lie.
    const Located tombstone = *now;
    CO_TRY_OK(co_await node_.store.remove(entry.name, {{place, {}}}, tombstone.record));
    CO_TRY_OK(co_await node_.store.forget(entry.name, {tombstone}));
  }
  co_return true;
}

/// The bytes in a work file in place, compared with all their checksums.
Task<Result<std::unique_ptr<WorkFile>>> Resilver::copy_to_place(Drive& place, Drive& drive,
                                                                const WalkEntry& entry,
                                                                Digests& digests) {
  CO_TRY(const auto object, co_await drive.open_object(entry.name.bucket, entry.name.object));
  if (!object) co_return std::unique_ptr<WorkFile>();
  std::unique_ptr<WorkFile> file;
  if (drive.draining()) {
    // Away from here in any case: as an upload that finds its place full.
    CO_TRY(file, co_await node_.store.create(entry.name, object->file_bytes()));
  } else {
    // Below the watermark only: else the next upload would push it out again.
    CO_TRY(file, co_await place.create(object->file_bytes(), false));
  }
  file->write_in_background();
  {
    BlockReader blocks(*object, TurnFor::background);
    // NOLINTNEXTLINE(cppcoreguidelines-avoid-capturing-lambda-coroutines): outlives write_chunks()
    const auto next = [&](std::span<std::byte> into) -> Task<Result<std::size_t>> {
      const std::uint64_t left = object->file_bytes() - digests.size();
      CO_TRY_OK(co_await pace_.pass(std::min(kBlockBytes, left)));
      CO_FAIL_POINT("move.block");
      co_return co_await blocks.next(into);
    };
    CO_TRY_OK(co_await write_chunks(*file, digests, next));
  }
  if (!object->record().coding && digests.xxh64() != object->record().xxh64)
    co_return fail(Errc::corrupt, "what was copied to drive {} does not match its checksum",
                   place.path());
  co_return file;
}

/// Under the name's lock.
Task<Status> Resilver::publish_in_place(const WalkEntry& entry, WorkFile& file,
                                        const Digests& digests, std::vector<Located> found) {
  io::ObjectAttribute attribute{entry.name.bucket, entry.bucket->placed_as(), entry.name.object,
                                found.front().record};
  attribute.record.file = file.name();
  const std::uint64_t bytes = attribute.record.file_bytes();
  CO_TRY_OK(co_await node_.store.publish(entry.name, file, std::move(attribute), digests.blocks(),
                                         std::move(found), cluster::Durability::full));
  ++progress_.counts.objects;
  progress_.counts.bytes += bytes;
  co_return Status();
}

/// Slices of all drives; what went wrong first.
Task<Status> move_all_slices(TargetNode& node, const Pace& pace, api::CopyProgress& counts) {
  Status first;
  const auto state = node.view.state();
  const auto drives = node.store.drives();
  for (const auto& drive : drives) {
    if (!drive->in_service()) continue;
    const Status moved = co_await move_slices(node.store, state, *drive, pace, counts);
    CO_TRY_OK(pace.go_on());
    if (!moved && first) first = moved;
  }
  co_return first;
}

Task<Status> walk_drives(TargetNode& node, api::MoveProgress& progress, std::stop_token stop) {
  CO_TRY(const auto walk, co_await node.moves.begin_resilver());
  const Pace pace{node.moves.limits, walk, node.clock, std::move(stop)};
  Resilver resilver(node, pace, progress);
  Status moved = co_await resilver.run();
  if (moved || moved.error().code != Errc::cancelled) {
    const Status slices = co_await move_all_slices(node, pace, progress.counts);
    if (moved) moved = slices;
  }
  // Clears the marks of drives that are in order, also when other drives are not.
  if (moved || moved.error().code != Errc::cancelled)
    CO_TRY_OK(co_await clear_misplaced_marks(node));
  co_return moved;
}

}  // namespace

ResilverStep resilver_step(const std::vector<Placed>& all, std::size_t here, std::size_t place) {
  const auto on = [&](std::size_t drive) {
    return std::find_if(all.begin(), all.end(), [&](const Placed& p) { return p.drive == drive; });
  };
  const auto ours = on(here);
  if (ours == all.end() || here == place) return ResilverStep::nothing;
  const auto there = on(place);
  if (there != all.end() && there->generation >= ours->generation) return ResilverStep::erase;
  const bool newer_elsewhere = std::any_of(
      all.begin(), all.end(), [&](const Placed& p) { return p.generation > ours->generation; });
  return newer_elsewhere ? ResilverStep::erase : ResilverStep::move;
}

Task<Status> clear_misplaced_marks(TargetNode& node) {
  const std::uint64_t misplacings = node.store.mirror().misplacings();
  for (const auto& drive : node.store.drives()) {
    if (!drive->may_hold_misplaced() || node.store.mirror().any_stale()) continue;
    const auto belongs = [&, state = node.view.state()](BucketId bucket, std::string_view name) {
      const auto* record = state->bmd.find(bucket);
      // Mirrored names are looked for on all drives, with or without the mark.
      if (record != nullptr && api::copies_of(record->props) > 0) return true;
      return record != nullptr && node.store.drive_for(record->placement_name(name)) == drive.get();
    };
    CO_TRY(const bool cleared, co_await drive->clear_misplaced_mark(belongs));
    if (cleared)
      obs::log("target").info("mark of misplaced objects cleared drive={}", drive->path());
  }
  co_return co_await node.store.mirror().all_in_place(misplacings);
}

Task<Status> resilver_walk(TargetNode& node, api::MoveProgress& progress, std::stop_token stop) {
  progress.kind = "resilver";
  const std::uint64_t begun = node.resilver.begin();
  const Status moved = co_await walk_drives(node, progress, stop);
  using End = ResilverRequest::End;
  const End end = moved ? End::clean : stop.stop_requested() ? End::stopped : End::failed;
  node.resilver.end(begun, end, node.clock.boot_time());
  co_return moved;
}

}  // namespace tarn::target
