#include "target/replica/away_drive.h"

#include <algorithm>

#include "common/api/mirror_props.h"
#include "common/base/fail_point.h"
#include "common/base/gather.h"
#include "common/obs/log.h"
#include "target/drive/record_pages.h"
#include "target/replica/node_copies.h"

namespace tarn::target {
namespace {

/// Wait of a file for room. Other files may take what was made for it.
constexpr std::chrono::seconds kRoomPatience{10};
constexpr int kMakeRoomTimes = 3;
/// Names of a drive that is back, of each of which all drives are asked. One after the other took
/// minutes for 2,000 names while clients kept the drives busy.
constexpr std::size_t kDropAtOnce = 16;

bool others_know(const TargetNode& node, const ObjectName& name) {
  const auto version = node.view.state()->map.version;
  return replica_count_of(node, name.bucket).at(version) > 1;
}

/// Another drive takes its place where one is away. Of a name that has copies on drives of this
/// target, too, the Mirror sees to that.
bool may_lie_elsewhere(const TargetNode& node, const ObjectName& name) {
  return name.copies == 0 && others_know(node, name);
}

/// A drive that merely hangs may still commit what it was asked to, so no other drive stands in for
/// it.
bool is_gone(const Drive* drive) {
  return drive == nullptr || (!drive->usable() && !drive->hangs());
}

bool any_away(const ObjectStore& store) {
  const auto drives = store.drives();
  return !store.missing().empty() || std::any_of(drives.begin(), drives.end(),
                                                 [](const auto& each) { return !each->usable(); });
}

/// Returns the drives of drives_for() that are not overloaded.
std::vector<std::shared_ptr<Drive>> takers(const ObjectStore& store, const ObjectName& name) {
  auto out = drives_for(store, name);
  std::erase_if(out, [](const auto& drive) { return !drive->not_overloaded(); });
  return out;
}

/// From here on none of the drives that are gone is believed, back again, while another is away.
/// The note of what is misplaced ensures that as well, but does not count for names with copies on
/// drives. These names may get some (docs/decisions/019, few targets) before they have moved.
Task<Status> note_stale(TargetNode& node) {
  if (!SAFETY("safety.overtaken_is_stale")) co_return Status();
  std::vector<std::string> paths;
  for (const auto& drive : node.store.drives())
    if (is_gone(drive.get())) paths.push_back(drive->path());
  for (const auto& [path, why] : node.store.missing()) paths.push_back(path);
  for (const std::string& path : paths) CO_TRY_OK(co_await node.store.mirror().goes(path, {}));
  co_return Status();
}

Error drive_is_away(const ObjectName& name) {
  return {Errc::unavailable, fmt::format("object {} lives on a drive that is away, and no other "
                                         "drive of this target takes new files",
                                         name.object)};
}

/// Removes what `drive`, which was stale, has of one name when another drive has something newer.
Task<Status> drop_older(TargetNode& node, const Drive& drive, ObjectName name) {
  const auto held = co_await node.store.locks().acquire(name.key());
  CO_TRY(auto found, co_await node.store.find_all(name));
  std::vector<Located> older;
  for (const Located& each : found)
    if (each.drive == &drive && each.record.generation < found.front().record.generation)
      older.push_back(each);
  if (older.empty()) co_return Status();
  co_return co_await node.store.forget(std::move(name), std::move(older));
}

Status may_drop() {
  FAIL_POINT("mirror.before_drop");
  return {};
}

Task<bool> drop_of_bucket(TargetNode& node, Drive& drive, const cluster::BucketRecord& bucket) {
  RecordPages<ObjectName> pages(drive, bucket.id,
                                [&](std::string_view name, const io::ObjectRecord&, auto& names) {
                                  names.push_back(name_in(bucket, std::string(name)));
                                });
  while (pages.more()) {
    auto names = co_await pages.next();
    if (!names) co_return false;
    const auto drop = [&](std::size_t i) {
      return drop_older(node, drive, std::move((*names)[i]));
    };
    const Status dropped = co_await gather_at_most(kDropAtOnce, names->size(), drop);
    if (!dropped) co_return false;
  }
  co_return true;
}

/// A new file where there is room now.
Task<Result<std::unique_ptr<WorkFile>>> create_with_room(TargetNode& node, ObjectName name,
                                                         std::optional<std::uint64_t> length) {
  if (!may_lie_elsewhere(node, name) || !is_gone(node.store.drive_for(name.uname)))
    co_return co_await node.store.create(std::move(name), length);
  CO_TRY_OK(co_await note_stale(node));
  Error last = drive_is_away(name);
  for (const bool above_watermark : {false, true}) {
    for (const auto& drive : takers(node.store, name)) {
      auto file = co_await drive->create(length, above_watermark);
      if (file) co_return std::move(file);
      last = file.error();
      if (last.code != Errc::no_space && last.code != Errc::unavailable) co_return fail(last);
    }
  }
  co_return fail(last);
}

}  // namespace

std::vector<std::shared_ptr<Drive>> drives_for(const ObjectStore& store, const ObjectName& name) {
  std::vector<std::shared_ptr<Drive>> all;
  std::vector<cluster::Candidate> candidates;
  for (const auto& [candidate, drive] : store.placed_drives()) {
    if (drive == nullptr || !drive->in_service() || !drive->takes_files()) continue;
    all.push_back(drive);
    candidates.push_back(candidate);
  }
  std::vector<std::shared_ptr<Drive>> out;
  if (all.empty()) return out;
  for (const std::size_t i :
       cluster::placement_order(candidates, cluster::placement_digest(name.uname)))
    out.push_back(all[i]);
  return out;
}

bool has_full_view(const TargetNode& node, const ObjectName& name) {
  if (!replica_count_of(node, name.bucket).many()) return true;
  if (name.copies > 0) return node.store.mirror().has_full_view(name.bucket, name.copies);
  const Drive* drive = node.store.drive_for(name.uname);
  if (is_gone(drive)) return false;
  return !node.store.mirror().may_be_misplaced(*drive) || !any_away(node.store);
}

Task<Result<std::vector<Located>>> find_here(TargetNode& node, ObjectName name) {
  if (has_full_view(node, name)) co_return co_await node.store.find_all(std::move(name));
  if (name.copies > 0) co_return co_await node.store.find_seen(std::move(name));
  std::vector<Located> found;
  for (const auto& drive : node.store.drives()) {
    if (is_gone(drive.get())) continue;
    CO_TRY(auto record, co_await drive->find(name.bucket, name.object));
    if (record) found.push_back({drive.get(), std::move(*record)});
  }
  std::sort(found.begin(), found.end(), [](const Located& a, const Located& b) {
    return a.record.generation > b.record.generation;
  });
  co_return found;
}

Status takes_writes(const TargetNode& node, const ObjectName& name) {
  if (!may_lie_elsewhere(node, name) || !is_gone(node.store.drive_for(name.uname)))
    return node.store.reachable(name);
  if (!takers(node.store, name).empty()) return {};
  return fail(drive_is_away(name));
}

Task<Result<std::unique_ptr<WorkFile>>> create_here(TargetNode& node, ObjectName name,
                                                    std::optional<std::uint64_t> length) {
  auto file = co_await create_with_room(node, name, length);
  const auto until = std::chrono::steady_clock::now() + kRoomPatience;
  for (int i = 0; i < kMakeRoomTimes && !file && file.error().code == Errc::no_space; ++i) {
    const bool made =
        node.room != nullptr && co_await node.room->make_room(name, length.value_or(0), until);
    if (!made) break;
    file = co_await create_with_room(node, name, length);
  }
  co_return file;
}

Task<Status> remove_here(TargetNode& node, ObjectName name, std::vector<Located> present,
                         io::ObjectRecord tombstone) {
  if (present.empty() && may_lie_elsewhere(node, name) &&
      is_gone(node.store.drive_for(name.uname))) {
    CO_TRY_OK(co_await note_stale(node));
    const auto drives = takers(node.store, name);
    if (drives.empty()) co_return fail(drive_is_away(name));
    // The note that look-ups visit it is as durable as the note that the other drive is stale
    // (Mirror::remember).
    drives.front()->expect_misplaced();
    CO_TRY_OK(co_await node.store.note_misplaced(name));
    present.push_back({drives.front().get(), {}});
  }
  co_return co_await node.store.remove(std::move(name), std::move(present), std::move(tombstone));
}

Task<bool> drop_overtaken(TargetNode& node) {
  const auto stale = node.store.mirror().stale();
  if (stale.empty()) co_return true;
  if (any_away(node.store) || !may_drop()) co_return false;
  bool all = true;
  const auto state = node.view.state();
  for (const auto& [name, bucket] : state->bmd.buckets) {
    if (api::copies_of(bucket.props) > 0) continue;
    // Also where there is one copy by now: what was overtaken when there were more lies here still.
    const bool had_many = bucket.replica_count().many();
    for (const auto& drive : node.store.drives()) {
      if (!stale.contains(drive->id())) continue;
      if (!had_many && !node.store.mirror().stale_single(*drive)) continue;
      const bool done = co_await drop_of_bucket(node, *drive, bucket);
      all = all && done;
    }
  }
  co_return all;
}

}  // namespace tarn::target
