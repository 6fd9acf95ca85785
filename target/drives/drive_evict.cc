// Evicts from drives that stay away, for buckets that upstream has (docs/decisions/025).

#include <algorithm>
#include <utility>

#include "common/base/fail_point.h"
#include "common/obs/log.h"
#include "target/drives/drive_admin.h"

namespace tarn::target {
namespace {

constexpr std::chrono::minutes kDriveEvictAgain{1};

spdlog::logger& drive_evict_log() { return obs::log("target"); }

/// ok unless a drive that may hold what belongs elsewhere cannot be looked through.
Status check_all_serve(const ObjectStore& store) {
  for (const auto& drive : store.drives())
    if (drive->may_hold_misplaced() && !drive->in_service())
      return fail(Errc::unavailable, "drive {} is out of service", drive->path());
  return {};
}

}  // namespace

/// True of a drive that has been missing for so long, or that something was evicted from. False of
/// one that an operator has put out of service.
bool DriveAdmin::stays_away(const std::string& path) const {
  const MutexLock lock(mutex_);
  const auto away = away_.find(path);
  if (away == away_.end()) return false;
  return clock_.boot_time() - away->second->since >= evict_after_ ||
         !store_.evicted_from(path).empty();
}

/// True if nothing that may be older than what is evicted comes into sight later: all drives that
/// are missing have been for so long, and those that are back have caught up.
bool DriveAdmin::may_evict() const {
  if (!store_.mirror().stale().empty()) return false;
  const auto missing = store_.missing();
  return std::all_of(missing.begin(), missing.end(),
                     [&](const auto& each) { return stays_away(each.first); }) ||
         !SAFETY("safety.evict_together");
}

std::vector<DriveAdmin::Evictable> DriveAdmin::evictable() const {
  std::vector<Evictable> out;
  std::map<std::string, EvictedBuckets> done;
  for (const auto& [path, why] : store_.missing())
    if (stays_away(path)) done[path] = store_.evicted_from(path);
  const auto state = view_.state();
  for (const auto& [name, bucket] : state->bmd.buckets) {
    if (!on_drives(bucket.id, &bucket).is_refetchable) continue;
    Evictable its{bucket, {}};
    for (const auto& [path, buckets] : done)
      if (!buckets.contains(bucket.id)) its.paths.insert(path);
    if (!its.paths.empty()) out.push_back(std::move(its));
  }
  return out;
}

Task<void> DriveAdmin::evict_away() {
  if (store_.missing().empty() || clock_.boot_time() < evict_again_) co_return;
  if (evictable().empty() || !may_evict() || !node_.membership.lease().valid()) co_return;
  // While names move, a former owner may have older versions, and a new one asks for what was here.
  const bool is_quiescent = node_.owned.state()->map->past.empty();
  if (!is_quiescent && SAFETY("safety.evict_when_quiescent")) co_return;
  const Turn turn(busy_);
  if (!turn.got() || !may_evict()) co_return;  // during another change of drives: the next time
  const Status done = co_await evict(evictable());
  if (done) co_return;
  evict_again_ = clock_.boot_time() + kDriveEvictAgain;
  drive_evict_log().warn("nothing evicted from missing drives err={}", done.error().message);
}

/// The notes are durable before a name lives elsewhere: back again, no drive has anything older
/// than what was written meanwhile. Nor has one that was given up, and is attached again.
Task<Status> DriveAdmin::evict(std::vector<Evictable> wanted) {
  CO_TRY_OK(check_all_serve(store_));
  for (const Evictable& each : wanted)
    CO_TRY_OK(co_await store_.forget_stale(each.paths, each.bucket));
  std::map<std::string, std::shared_ptr<Away>> away;
  std::set<std::string> given_up;
  {
    const MutexLock lock(mutex_);
    away = away_;
    for (const auto& [id, gone] : list_.gone) given_up.insert(id);
  }
  const Generation upto = node_.next_generation(view_.state()->map.version);
  std::map<std::string, EvictedBuckets> evicted;
  EvictedDrives notes;
  for (const auto& [bucket, paths] : wanted) {
    for (const std::string& path : paths) {
      evicted[path][bucket.id] = upto;
      notes[away.at(path)->id][bucket.id] = upto;
    }
    for (const std::string& id : given_up) notes[id][bucket.id] = upto;
  }
  if (SAFETY("safety.note_evicted"))
    CO_TRY_OK(co_await store_.mirror().note_evicted(std::move(notes)));
  CO_FAIL_POINT("drive.evicted");
  for (auto& [path, buckets] : evicted) {
    drive_evict_log().warn("what a missing drive holds counts as evicted drive={} id={} buckets={}",
                           path, away.at(path)->id, buckets.size());
    buckets.merge(store_.evicted_from(path));
    store_.set_evicted(path, std::move(buckets));
    note_missing(path, *away.at(path));
  }
  co_return Status();
}

}  // namespace tarn::target
