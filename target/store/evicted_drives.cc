// Drives that stay away, of which what upstream has counts as evicted (docs/decisions/025).

#include <algorithm>

#include "common/obs/log.h"
#include "target/drive/record_pages.h"
#include "target/store/object_store.h"

namespace tarn::target {

bool ObjectStore::DriveSet::is_evicted(std::size_t place, const ObjectName& name) const {
  if (place < drives.size() || !name.is_refetchable) return false;
  const auto of_drive = evicted.find(places[place].path);
  return of_drive != evicted.end() && of_drive->second.contains(name.bucket);
}

std::optional<std::size_t> ObjectStore::DriveSet::place_for(
    const ObjectName& name, const std::vector<std::size_t>& by_rank) const {
  for (const std::size_t place : by_rank)
    if (!is_evicted(place, name)) return place;
  return {};
}

bool ObjectStore::DriveSet::all_evicted(const ObjectName& name) const {
  for (std::size_t place = drives.size(); place < places.size(); ++place)
    if (!is_evicted(place, name)) return false;
  return true;
}

void ObjectStore::set_evicted(const std::string& path, EvictedBuckets buckets) {
  ++evictions_;
  const auto before = set_.get();
  auto evicted = before->evicted;
  evicted[path] = std::move(buckets);
  replace_set(make_set(before->drives, before->missing, std::move(evicted), before->places));
}

EvictedBuckets ObjectStore::evicted_from(const std::string& path) const {
  const auto set = set_.get();
  const auto its = set->evicted.find(path);
  return its == set->evicted.end() ? EvictedBuckets() : its->second;
}

Drive* ObjectStore::drive_for(const ObjectName& name) const {
  const auto set = set_.get();
  const auto place = set->place_for(name, set->order(name));
  return place && *place < set->drives.size() ? set->drives[*place].get() : nullptr;
}

Task<Status> ObjectStore::forget_stale(std::set<std::string> paths, cluster::BucketRecord bucket) {
  const auto set = set_.get();
  const auto comes_first = [&](const std::string& uname, const Drive& drive) {
    for (const std::size_t place :
         cluster::placement_order(set->candidates, cluster::placement_digest(uname))) {
      if (paths.contains(set->places[place].path)) return true;
      if (place < set->drives.size() && set->drives[place].get() == &drive) return false;
    }
    return false;
  };
  for (const auto& drive : set->drives) {
    if (!drive->may_hold_misplaced()) continue;
    if (!drive->in_service())
      co_return fail(Errc::unavailable, "drive {} is out of service", drive->path());
    const auto stale = [&](std::string_view object, const io::ObjectRecord& record,
                           std::vector<ObjectName>& names) {
      if (record.kind != io::ObjectRecord::Kind::object) return;
      ObjectName name{bucket.id, bucket.placement_name(object), std::string(object)};
      if (comes_first(name.uname, *drive)) names.push_back(std::move(name));
    };
    RecordPages<ObjectName> pages(*drive, bucket.id, stale);
    while (pages.more()) {
      CO_TRY(const auto names, co_await pages.next());
      for (const ObjectName& name : names) {
        const auto held = co_await locks_.acquire(name.key());
        CO_TRY(auto record, co_await drive->find(name.bucket, name.object));
        if (!record || record->kind != io::ObjectRecord::Kind::object) continue;
        std::vector<Located> gone;
        gone.push_back({drive.get(), std::move(*record)});
        CO_TRY_OK(co_await forget(name, std::move(gone)));
      }
    }
  }
  co_return Status();
}

}  // namespace tarn::target
