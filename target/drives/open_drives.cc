#include "target/drives/open_drives.h"

#include <algorithm>
#include <set>
#include <utility>

#include "common/api/mirror_props.h"
#include "common/base/fail_point.h"
#include "common/obs/log.h"
#include "target/drive/cluster_history.h"

namespace tarn::target {
namespace {

constexpr const char* kLedgerOfNode = "mirror.json";

spdlog::logger& open_drives_log() { return obs::log("target"); }

/// Drives that are here now hold nothing of what was evicted from them.
Status forget_evicted(const std::string& directory, MirrorLedger own, const EvictedDrives& left) {
  if (own.evicted == left) return {};
  own.evicted = left;
  TRY(const auto files, io::FileSystem::open(directory));
  return files->write_file(kLedgerOfNode, own.json());
}

EvictedBuckets evicted_from(const EvictedDrives& all, const std::string& drive) {
  const auto its = all.find(drive);
  return its == all.end() ? EvictedBuckets() : its->second;
}

}  // namespace

Result<std::optional<MirrorLedger>> node_ledger(const std::string& directory) {
  TRY(const auto files, io::FileSystem::open(directory));
  const auto text = files->read_file(kLedgerOfNode);
  if (!text && text.error().code == Errc::not_found) return std::optional<MirrorLedger>();
  if (!text) return fail(text.error());
  TRY(MirrorLedger out, MirrorLedger::parse(*text));
  return std::optional(std::move(out));
}

Status read_ledger(io::FileSystem& files, MirrorLedger& ledger) {
  const auto text = files.read_file(kLedgerOfDrive);
  if (!text) return text.error().code == Errc::not_found ? Status() : fail(text.error());
  TRY(const MirrorLedger found, MirrorLedger::parse(*text));
  ledger.add(found);
  ledger.agree(found);
  return {};
}

Result<std::unique_ptr<Drive>> DriveOpener::open(std::unique_ptr<io::FileSystem> files,
                                                 const DrivePlan::Use& use,
                                                 const cluster::ClusterState& state,
                                                 EvictedBuckets evicted) const {
  TRY_OK(write_identity(*files, use.identity));
  TRY_OK(probe_file_system(*files));
  Drive::Options its;
  its.path = use.path;
  its.id = use.identity.drive;
  its.threads = options.drive_threads;
  its.space = options.limits();
  its.may_hold_misplaced = use.may_hold_misplaced;
  for (const auto& [uuid, place] : use.identity.siblings) its.places.push_back(place);
  its.dead_buckets = state.bmd.dead;
  its.evicted = std::move(evicted);
  for (const auto& [name, bucket] : state.bmd.buckets) {
    its.buckets[bucket.id] = bucket.placed_as();
    if (api::copies_of(bucket.props) > 0) its.spread_buckets.insert(bucket.id);
  }
  its.kind = options.kind();
  its.hang_after = std::chrono::ceil<std::chrono::seconds>(options.hang_after);
  its.cache_policy = cache_policy;
  its.files = std::move(files);
  TRY(auto drive, Drive::open(std::move(its), memory));
  const RecoveryReport& report = drive->recovery();
  open_drives_log().info(
      "drive open drive={} id={} kind={} objects={} adopted={} work_files={} stale_files={} "
      "lost_records={} torn_files={} unreadable_files={} newer_metadata={} tombstones={} "
      "slices={} evicted={}",
      use.path, use.identity.drive,
      drive->kind() == io::DriveKind::rotational ? "rotational" : "solid", report.records,
      report.adopted, report.work_files, report.stale_files, report.lost_records, report.torn_files,
      report.unreadable_files, report.newer_metadata, report.tombstones, report.slices,
      report.evicted);
  return drive;
}

namespace {

/// True if other targets have what lies here.
bool any_elsewhere(const cluster::ClusterState& state) {
  return std::any_of(state.bmd.buckets.begin(), state.bmd.buckets.end(),
                     [](const auto& each) { return each.second.replica_count().many(); });
}

/// True if one of these drives is given up in favour of the one at its path now.
bool gives_up(const std::vector<FoundDrive>& found, const std::vector<std::string>& replace) {
  std::set<std::string> there;
  for (const FoundDrive& drive : found)
    if (drive.identity) there.insert(drive.identity->drive);
  const auto is_lost = [&](const auto& sibling) {
    return !there.contains(sibling.first) &&
           std::find(replace.begin(), replace.end(), sibling.second.path) != replace.end();
  };
  return std::any_of(found.begin(), found.end(), [&](const FoundDrive& drive) {
    return drive.identity &&
           std::any_of(drive.identity->siblings.begin(), drive.identity->siblings.end(), is_lost);
  });
}

}  // namespace

Result<OpenedDrives> DriveOpener::open_all(const DriveList& list,
                                           const cluster::ClusterState& state) const {
  std::vector<FoundDrive> found;
  std::map<std::string, std::unique_ptr<io::FileSystem>> files;
  for (const std::string& path : list.apply_to(options.drives)) {
    auto file_system = io::FileSystem::open(path);
    if (!file_system && list.disabled.contains(path)) continue;
    if (!file_system) {
      found.push_back({path, std::nullopt, false, 0, file_system.error().message});
      continue;
    }
    TRY(FoundDrive drive, inspect_drive(**file_system));
    found.push_back(std::move(drive));
    files[path] = std::move(*file_system);
  }
  TRY(DrivePlan plan, plan_drives(found, state.uuid, options.replace_drives,
                                  "t" + fail_point::identity(8, options.dir.native())));
  for (const auto& [path, drive] : files) TRY_OK(check_history(*drive, state));
  OpenedDrives opened{plan.node, {}, plan.missing, {}, {}, {}, {}, list.drive_set};
  // Notes this before any drive forgets that there was another one. The former contents are gone.
  // The other targets must know that before this target reports it of anything.
  const bool loses = gives_up(found, options.replace_drives) && any_elsewhere(state);
  if (list.drive_set == 0 || loses) {
    opened.drive_set = other_drive_set();
    TRY_OK(save_drive_set(options.dir, opened.drive_set));
  }
  // Reads the directory first: copies count as complete only if it notes them as such, too.
  TRY(const auto own, node_ledger(options.dir));
  if (own) opened.ledger = *own;
  for (const auto& [path, drive] : files) TRY_OK(read_ledger(*drive, opened.ledger));
  if (own) opened.ledger.evicted = own->evicted;
  // Objects of a drive that is given up have fewer copies.
  if (!options.replace_drives.empty()) opened.ledger.complete.clear();
  for (const DrivePlan::Use& use : plan.use)
    for (const auto& [uuid, place] : use.identity.siblings) opened.missing_ids[place.path] = uuid;
  for (const auto& [path, why] : plan.missing)
    open_drives_log().error("drive missing path={} why={}", path, why);
  for (const DrivePlan::Use& use : plan.use) {
    // Other drives than before: names live elsewhere now.
    if (use.may_hold_misplaced)
      for (const auto& [uuid, place] : use.identity.siblings) opened.ledger.misplaced.insert(uuid);
    const std::string& id = use.identity.drive;
    auto drive =
        open(std::move(files[use.path]), use, state, evicted_from(opened.ledger.evicted, id));
    const bool is_disabled = list.disabled.contains(use.path);
    if (!drive && is_disabled && opened.drives.size() + 1 < plan.use.size()) {
      open_drives_log().warn("disabled drive not opened drive={} err={}", use.path,
                             drive.error().message);
      opened.missing[use.path] = "it is disabled, and could not be opened";
      continue;
    }
    if (!drive) return fail(drive.error());
    opened.ledger.evicted.erase(id);
    (*drive)->set_disabled(is_disabled);
    if (list.leaving.contains(use.path)) {
      // Objects there counted as in place when it was opened.
      (*drive)->set_draining(true);
      (*drive)->expect_misplaced();
    }
    opened.identities[use.path] = use.identity;
    const RecoveryReport& report = (*drive)->recovery();
    if (report.lost_records + report.torn_files + report.unreadable_files > 0)
      opened.ledger.complete.clear();
    opened.drives.push_back(std::move(*drive));
  }
  // One that was emptied before it was disabled is no name's place, there or not.
  for (const auto& [path, then] : list.leaving)
    if (list.disabled.contains(path)) opened.missing.erase(path);
  // Notes of drives on missing ones may be stale: these are evicted anew.
  if (!own) opened.ledger.evicted.clear();
  if (own) TRY_OK(forget_evicted(options.dir, *own, opened.ledger.evicted));
  for (const auto& [path, id] : opened.missing_ids)
    if (const auto its = opened.ledger.evicted.find(id);
        opened.missing.contains(path) && its != opened.ledger.evicted.end())
      opened.evicted[path] = its->second;
  return opened;
}

}  // namespace tarn::target
