#include "target/store/object_store.h"

#include <algorithm>
#include <iterator>

#include "common/base/check.h"
#include "common/base/fail_point.h"
#include "common/obs/log.h"

namespace tarn::target {
namespace {

constexpr int kObjectStoreAttemptsMax = 10;

bool is_live(const io::ObjectRecord& record) {
  return record.kind == io::ObjectRecord::Kind::object;
}

Error lies_on_disabled(const ObjectName& name, const Drive& drive) {
  return {Errc::unavailable,
          fmt::format("object {} lies on drive {}, which is disabled (tarn drive enable)",
                      name.object, drive.path())};
}

/// The drives at `paths`, with the sizes that `drives` know. A drive's size for itself counts most:
/// one that was opened before knows of a drive that had its place. Sizes known `before` count
/// least.
std::vector<DrivePlace> places_at(const std::vector<std::string>& paths,
                                  const std::vector<std::shared_ptr<Drive>>& drives,
                                  const std::vector<DrivePlace>& before) {
  std::map<std::string, std::uint64_t> known;
  for (const DrivePlace& place : before) known[place.path] = place.bytes;
  std::map<std::string, std::uint64_t> sizes;
  for (const auto& drive : drives)
    for (const DrivePlace& place : drive->places())
      if (place.path == drive->path() || !sizes.contains(place.path))
        sizes[place.path] = place.bytes;
  std::vector<DrivePlace> out;
  sizes.merge(known);
  out.reserve(paths.size());
  for (const std::string& path : paths) out.push_back({path, sizes[path]});
  return out;
}

}  // namespace

ObjectStore::ObjectStore(std::vector<std::unique_ptr<Drive>> drives,
                         std::map<std::string, std::string> missing)
    : set_(
          make_set({std::make_move_iterator(drives.begin()), std::make_move_iterator(drives.end())},
                   std::move(missing), {}, {})) {}

std::shared_ptr<const ObjectStore::DriveSet> ObjectStore::make_set(
    std::vector<std::shared_ptr<Drive>> drives, std::map<std::string, std::string> missing,
    std::map<std::string, EvictedBuckets> evicted, const std::vector<DrivePlace>& before) {
  auto set = std::make_shared<DriveSet>();
  std::vector<std::string> paths;
  paths.reserve(drives.size() + missing.size());
  for (const auto& drive : drives) paths.push_back(drive->path());
  for (const auto& [path, why] : missing) paths.push_back(path);
  set->places = places_at(paths, drives, before);
  set->candidates = drive_candidates(set->places);
  // Ranks are indexes of all three: drives that are there come first.
  TARN_CHECK(set->places.size() == drives.size() + missing.size());
  TARN_CHECK(set->candidates.size() == set->places.size());
  for (std::size_t i = 0; i < drives.size(); ++i)
    if (drives[i]->draining()) set->candidates[i].weight = 0;
  set->drives = std::move(drives);
  set->missing = std::move(missing);
  std::erase_if(evicted, [&](const auto& each) { return !set->missing.contains(each.first); });
  set->evicted = std::move(evicted);
  return set;
}

void ObjectStore::replace_set(std::shared_ptr<const DriveSet> next) {
  {
    const MutexLock lock(former_mutex_);
    std::erase_if(former_, [](const auto& each) { return each.expired(); });
    former_.push_back(set_.get());
  }
  set_.set(std::move(next));
}

bool ObjectStore::may_be_asked(const Drive& drive) const {
  const auto has_it = [&](const std::shared_ptr<const DriveSet>& set) {
    return set != nullptr && std::any_of(set->drives.begin(), set->drives.end(),
                                         [&](const auto& one) { return one.get() == &drive; });
  };
  if (has_it(set_.get())) return true;
  const MutexLock lock(former_mutex_);
  return std::any_of(former_.begin(), former_.end(),
                     [&](const auto& each) { return has_it(each.lock()); });
}

std::vector<ObjectStore::Placed> ObjectStore::placed_drives() const {
  const auto set = set_.get();
  std::vector<Placed> out;
  out.reserve(set->candidates.size());
  for (std::size_t i = 0; i < set->candidates.size(); ++i)
    out.push_back({set->candidates[i], i < set->drives.size() ? set->drives[i] : nullptr});
  return out;
}

std::shared_ptr<Drive> ObjectStore::drive_at(const std::string& path) const {
  const auto set = set_.get();
  for (const auto& drive : set->drives)
    if (drive->path() == path) return drive;
  return nullptr;
}

Drive* ObjectStore::drive_for(std::string_view uname) const {
  const auto set = set_.get();
  const auto first = cluster::placement_first(set->candidates, cluster::placement_digest(uname));
  return first < set->drives.size() ? set->drives[first].get() : nullptr;
}

/// Adds a drive, so that places move: what the other drives hold may belong to the new one from
/// here on, and what it brings may be older than what they have.
void ObjectStore::attach(std::shared_ptr<Drive> drive) {
  const auto before = set_.get();
  // Names that belong there would have two places.
  TARN_CHECK(drive_at(drive->path()) == nullptr);
  auto drives = before->drives;
  auto missing = before->missing;
  drive->set_space_limits(space_limits());
  drive->expect_misplaced();
  for (const auto& each : drives) each->expect_misplaced();
  missing.erase(drive->path());
  drives.push_back(std::move(drive));
  replace_set(make_set(std::move(drives), std::move(missing), before->evicted, before->places));
}

void ObjectStore::take_from_set(const Drive& drive, std::map<std::string, std::string> missing) {
  const auto before = set_.get();
  auto drives = before->drives;
  const auto at = std::find_if(drives.begin(), drives.end(),
                               [&](const auto& each) { return each.get() == &drive; });
  if (at == drives.end()) return;
  detached_.push_back(*at);
  drives.erase(at);
  replace_set(make_set(std::move(drives), std::move(missing), before->evicted, before->places));
  open_.forget_drive(drive);
}

void ObjectStore::detach(const Drive& drive) {
  // No place moves when one goes that was none.
  if (!drive.draining())
    for (const auto& each : drives())
      if (each.get() != &drive) each->expect_misplaced();
  take_from_set(drive, missing());
}

void ObjectStore::lose(const Drive& drive, std::string why) {
  auto missing = this->missing();
  missing[drive.path()] = std::move(why);
  take_from_set(drive, std::move(missing));
}

/// Places move to other drives, or back to this one.
void ObjectStore::set_draining(Drive& drive, bool draining) {
  drive.set_draining(draining);
  expect_misplaced();
  const auto before = set_.get();
  replace_set(make_set(before->drives, before->missing, before->evicted, before->places));
}

void ObjectStore::expect_misplaced() {
  for (const auto& drive : drives()) drive->expect_misplaced();
}

void ObjectStore::note_missing(const std::string& path, std::string why) {
  const auto before = set_.get();
  auto missing = before->missing;
  const auto its = missing.find(path);
  if (its == missing.end()) return;
  its->second = std::move(why);
  replace_set(make_set(before->drives, std::move(missing), before->evicted, before->places));
}

void ObjectStore::forget_missing(const std::string& path) {
  const auto before = set_.get();
  auto missing = before->missing;
  missing.erase(path);
  replace_set(make_set(before->drives, std::move(missing), before->evicted, before->places));
}

Task<Status> ObjectStore::note_misplaced(const ObjectName& name) {
  const auto set = set_.get();
  co_return co_await mirror_.misplaces(set->places[set->order(name).front()].path);
}

std::vector<std::size_t> ObjectStore::DriveSet::order(const ObjectName& name) const {
  return cluster::placement_order(candidates, cluster::placement_digest(name.uname));
}

Result<Drive*> ObjectStore::DriveSet::drive_for(const ObjectName& name,
                                                const std::vector<std::size_t>& by_rank) const {
  const auto place = place_for(name, by_rank);
  if (!place)
    return fail(Errc::unavailable, "object {}: all drives of this target are away", name.object);
  if (*place >= drives.size())
    return fail(Errc::unavailable, "object {} lives on a drive that is away: {}", name.object,
                missing.at(places[*place].path));
  TRY_OK(drives[*place]->usable());
  return drives[*place].get();
}

bool ObjectStore::DriveSet::may_hold_misplaced() const {
  return std::any_of(drives.begin(), drives.end(),
                     [](const auto& drive) { return drive->may_hold_misplaced(); });
}

Status ObjectStore::reachable(const ObjectName& name) const {
  if (name.copies > 0) return mirror_.writable(name);
  const auto set = set_.get();
  TRY_OK(set->drive_for(name, set->order(name)));
  return {};
}

/// True if the newest version of a name may lie on a later drive than its place, which is there.
bool ObjectStore::may_be_misplaced(const DriveSet& set,
                                   const std::vector<std::size_t>& by_rank) const {
  for (const std::size_t place : by_rank) {
    if (place < set.drives.size()) return mirror_.may_be_misplaced(*set.drives[place]);
    if (mirror_.are_misplaced(set.places[place].path)) return true;
  }
  return true;
}

Status ObjectStore::check_not_away(const DriveSet& set, const ObjectName& name) const {
  if (set.missing.empty()) return {};
  if (name.is_refetchable) {
    const auto by_rank = set.order(name);
    const auto drive = set.drive_for(name, by_rank);
    if (drive && (set.all_evicted(name) || !may_be_misplaced(set, by_rank))) return {};
  }
  return fail(Errc::unavailable, "object {} is not here, but drive {} is away", name.object,
              set.missing.begin()->first);
}

Status ObjectStore::check_not_away(const ObjectName& name) const {
  return check_not_away(*set_.get(), name);
}

bool ObjectStore::may_hold_misplaced() const { return set_.get()->may_hold_misplaced(); }

Task<Result<std::vector<Located>>> ObjectStore::find_all(ObjectName name) {
  if (name.copies > 0) co_return co_await mirror_.find_all(std::move(name));
  const auto set = set_.get();
  const auto by_rank = set->order(name);
  CO_TRY(Drive* const first, set->drive_for(name, by_rank));
  std::vector<Located> found;
  const bool one_drive = !set->may_hold_misplaced();
  for (int look = 0; look < 2; ++look) {
    const OpenObjects::Moment before = one_drive ? 0 : open_.now(name.bucket, name.object);
    found.clear();
    for (const std::size_t index : by_rank) {
      if (index >= set->drives.size()) continue;
      Drive& drive = *set->drives[index];
      if (&drive != first && !drive.may_hold_misplaced()) continue;
      CO_TRY(auto record, co_await drive.find(name.bucket, name.object));
      if (record) found.push_back({&drive, std::move(*record)});
    }
    // A record that moves between drives may have been missed: not there yet, and no longer here.
    // Then it is there by now.
    if (one_drive) break;
    if (open_.now(name.bucket, name.object) == before && !locks_.is_held(name.key())) break;
  }
  std::sort(found.begin(), found.end(), [](const Located& a, const Located& b) {
    return a.record.generation > b.record.generation;
  });
  if (!set->missing.empty() && !found.empty() && mirror_.stale_single(*found.front().drive))
    co_return fail(
        Errc::unavailable,
        "object {}: drive {} was out of service, and drive {}, which is away, may have a "
        "newer version",
        name.object, found.front().drive->path(), set->missing.begin()->first);
  co_return found;
}

Task<Result<std::vector<Located>>> ObjectStore::find_seen(ObjectName name) {
  if (name.copies > 0) co_return co_await mirror_.find_seen(std::move(name));
  co_return co_await find_all(std::move(name));
}

std::shared_ptr<OpenObject> ObjectStore::find_open(const ObjectName& name) {
  auto object = open_.find(name.bucket, name.object);
  if (!object || object->drive().disabled() || !object->drive().usable() ||
      !object->drive().not_overloaded())
    return nullptr;
  if (name.copies > 1 && mirror_.has_idler_than(object->drive())) return nullptr;
  return object;
}

Task<Result<std::shared_ptr<OpenObject>>> ObjectStore::open_object(ObjectName name) {
  if (auto object = find_open(name)) co_return std::move(object);
  if (name.copies > 0) co_return co_await mirror_.open(std::move(name), {}, nullptr);
  for (int attempt = 0; attempt < kObjectStoreAttemptsMax; ++attempt) {
    const OpenObjects::Moment before = open_.now(name.bucket, name.object);
    const auto set = set_.get();
    const auto by_rank = set->order(name);
    CO_TRY(Drive* const first, set->drive_for(name, by_rank));
    CO_TRY_OK(first->not_overloaded());
    // Almost always: one drive, one visit to its threads.
    Drive* where = first;
    bool was_there = false;
    if (set->may_hold_misplaced()) {
      CO_TRY(const auto found, co_await find_all(name));
      if (!found.empty() && !is_live(found.front().record)) co_return std::shared_ptr<OpenObject>();
      was_there = !found.empty();
      if (was_there) where = found.front().drive;
    }
    std::shared_ptr<OpenObject> object;
    if (where->disabled()) {
      CO_TRY(const auto record, co_await where->find(name.bucket, name.object));
      if (record && is_live(*record)) co_return fail(lies_on_disabled(name, *where));
    } else {
      CO_TRY(object, co_await where->open_object(name.bucket, name.object));
    }
    if (!object && was_there) continue;  // moved, or deleted just now
    if (!object) CO_TRY_OK(check_not_away(*set, name));
    if (object && object->has_checksums()) open_.keep(name.bucket, name.object, before, object);
    co_return object;
  }
  co_return fail(Errc::unavailable, "object {} is being changed again and again", name.object);
}

Task<Result<std::optional<io::ObjectRecord>>> ObjectStore::find(ObjectName name) {
  CO_TRY(auto found, co_await find_all(name));
  if (found.empty() && name.copies == 0) CO_TRY_OK(check_not_away(name));
  if (found.empty() || !is_live(found.front().record)) co_return std::optional<io::ObjectRecord>();
  co_return std::move(found.front().record);
}

Task<Result<std::unique_ptr<WorkFile>>> ObjectStore::create(ObjectName name,
                                                            std::optional<std::uint64_t> length) {
  const auto set = set_.get();
  const auto by_rank = set->order(name);
  if (name.copies == 0) {
    CO_TRY(Drive* const first, set->drive_for(name, by_rank));
    CO_TRY_OK(first->not_overloaded());
  }
  Error last{
      Errc::unavailable,
      "no drive of this target takes new files now: they are out of service or do not keep up"};
  // First below the high watermark, then, when all are above it, up to where nothing goes any more.
  for (const bool above_watermark : {false, true}) {
    for (const std::size_t index : by_rank) {
      if (index >= set->drives.size() || !set->drives[index]->takes_files()) continue;
      if (name.copies > 0 && !set->drives[index]->not_overloaded()) continue;
      auto file = co_await set->drives[index]->create(length, above_watermark);
      if (file) co_return std::move(file);
      last = file.error();
      if (last.code != Errc::no_space && last.code != Errc::unavailable) co_return fail(last);
    }
  }
  co_return fail(last);
}

Task<Status> ObjectStore::publish(ObjectName name, WorkFile& file, io::ObjectAttribute attribute,
                                  std::vector<std::uint32_t> checksums, std::vector<Located> others,
                                  cluster::Durability durability) {
  TARN_CHECK(attribute.bucket_id == name.bucket && attribute.name == name.object);
  if (name.copies > 0)
    co_return co_await mirror_.publish(std::move(name), file, std::move(attribute),
                                       std::move(checksums), durability);
  Drive& drive = file.drive();
  const auto set = set_.get();
  const bool misplaced = set->places[set->order(name).front()].path != drive.path();
  std::unique_ptr<MisplacedMark::Coming> coming;
  if (misplaced) {
    coming = drive.misplaced_comes();
    CO_TRY_OK(co_await note_misplaced(name));
  }
  std::optional<io::ObjectRecord> replaced;
  for (const Located& other : others) {
    if (other.drive == &drive) {
      replaced = other.record;
    } else {
      durability = cluster::Durability::full;  // records removed below must have a successor
    }
  }
  const OpenObjects::Change change(open_, name.bucket, name.object);
  io::ObjectRecord marker = attribute.record;
  marker.kind = io::ObjectRecord::Kind::tombstone;
  CO_TRY_OK(co_await drive.publish(file, {std::move(attribute), std::move(checksums),
                                          std::move(replaced), misplaced, durability}));
  for (const Located& other : others) {
    if (other.drive == &drive || other.drive->disabled()) continue;
    // Only a leftover from here on: the higher generation wins if it cannot be removed now.
    const Status gone = co_await other.drive->remove(name.bucket, name.object, marker, false);
    if (!gone)
      obs::log("target").warn("older version not removed object={} drive={} err={}", name.object,
                              other.drive->path(), gone.error().message);
  }
  co_return Status();
}

Task<Status> ObjectStore::patch(ObjectName name, Drive& drive, io::ObjectAttribute attribute) {
  TARN_CHECK(attribute.bucket_id == name.bucket && attribute.name == name.object);
  if (name.copies > 0) co_return co_await mirror_.patch(std::move(name), std::move(attribute));
  if (drive.disabled()) co_return fail(lies_on_disabled(name, drive));
  const OpenObjects::Change change(open_, name.bucket, name.object);
  co_return co_await drive.patch(std::move(attribute));
}

Task<Status> ObjectStore::remove(ObjectName name, std::vector<Located> present,
                                 io::ObjectRecord tombstone) {
  if (name.copies > 0) co_return co_await mirror_.remove(std::move(name), std::move(tombstone));
  if (present.empty()) {
    const auto set = set_.get();
    const auto by_rank = set->order(name);
    CO_TRY(Drive* const belongs, set->drive_for(name, by_rank));
    if (set->places[by_rank.front()].path != belongs->path()) {
      // Has it looked for there also when the drive before this one is back.
      belongs->expect_misplaced();
      CO_TRY_OK(co_await note_misplaced(name));
    }
    present.push_back({belongs, {}});
  }
  co_return co_await remove_all(std::move(name), std::move(present), tombstone, true);
}

Task<Status> ObjectStore::forget(ObjectName name, std::vector<Located> present) {
  co_return co_await remove_all(std::move(name), std::move(present), {}, false);
}

Task<Status> ObjectStore::remove_all(ObjectName name, std::vector<Located> present,
                                     io::ObjectRecord tombstone, bool keep_tombstone) {
  // An older version there would come back with its drive.
  for (const Located& each : present)
    if (each.drive->disabled() && is_live(each.record))
      co_return fail(lies_on_disabled(name, *each.drive));
  const OpenObjects::Change change(open_, name.bucket, name.object);
  // The newest last: until it is gone the name still reads as that version, never as an older one.
  for (auto at = present.rbegin(); at != present.rend(); ++at)
    if (!at->drive->disabled())
      CO_TRY_OK(co_await at->drive->remove(name.bucket, name.object, tombstone, keep_tombstone));
  co_return Status();
}

void ObjectStore::set_space_limits(const SpaceLimits& limits) {
  space_limits_.set(std::make_shared<const SpaceLimits>(limits));
  for (const auto& drive : drives()) drive->set_space_limits(limits);
}

void ObjectStore::forget_bucket(BucketId bucket) {
  open_.forget_bucket(bucket);
  for (const auto& drive : drives()) drive->forget_bucket(bucket);
}

/// One page of every drive, merged. `next`: where the following call goes on.
Task<Result<ObjectStore::Page>> ObjectStore::list_once(const BucketOnDrives& bucket,
                                                       const std::string& prefix,
                                                       const std::string& after, std::size_t limit,
                                                       std::string& next,
                                                       const InPlaceOf& in_place_of) {
  std::map<std::string, Listed> merged;
  std::optional<std::string> bound;  // beyond it some drive has not listed all yet
  const auto all = drives();
  auto order = all;
  // Records that move between two drives are seen on one of them when each is asked before the
  // other.
  if (may_hold_misplaced()) order.insert(order.end(), all.rbegin(), all.rend());
  for (std::size_t i = 0; i < order.size(); ++i) {
    const auto& drive = order[i];
    if (bucket.copies > 1 && !drive->usable()) continue;  // lists_all() has looked
    CO_TRY_OK(drive->not_overloaded());
    CO_TRY(auto listing, co_await drive->list(bucket.id, prefix, after, limit));
    TARN_CHECK(listing.entries.size() <= limit);
    if (listing.more && (!bound || listing.entries.back().name < *bound))
      bound = listing.entries.back().name;
    for (auto& entry : listing.entries) {
      const auto [at, is_new] = merged.try_emplace(entry.name);
      Listed& newest = at->second;
      if (is_new || newest.record.generation < entry.record.generation) {
        newest = {entry.name, std::move(entry.record), drive.get()};
      } else if (newest.record.generation == entry.record.generation && i < all.size()) {
        ++newest.copies;
      }
    }
  }
  Page page;
  page.more = bound.has_value();
  for (auto& [name, newest] : merged) {
    if (bound && name > *bound) break;
    const auto* shown = in_place_of ? in_place_of(name, newest.record) : &newest.record;
    if (shown == nullptr || !is_live(*shown)) continue;
    if (shown != &newest.record) newest.record = *shown;
    page.entries.push_back(std::move(newest));
  }
  if (bound) next = *bound;
  co_return page;
}

Status ObjectStore::lists_all(const BucketOnDrives& bucket) const {
  const auto set = set_.get();
  if (bucket.copies > 0 && mirror_.has_full_view(bucket.id, bucket.copies)) return {};
  if (!set->missing.empty() && !bucket.is_refetchable)
    return fail(Errc::unavailable, "a list would be short: {}", set->missing.begin()->second);
  for (const auto& drive : set->drives) TRY_OK(drive->usable());
  return {};
}

Task<Result<ObjectStore::Page>> ObjectStore::list(BucketOnDrives bucket, std::string prefix,
                                                  std::string after, std::size_t limit,
                                                  bool by_directory, InPlaceOf in_place_of) {
  TARN_CHECK(limit > 0);  // a page of nothing with more after it would never end
  CO_TRY_OK(lists_all(bucket));
  Page page;
  std::string from = std::move(after);
  while (true) {
    std::string next;
    CO_TRY(auto part, co_await list_once(bucket, prefix, from, limit, next, in_place_of));
    CO_TRY_OK(lists_all(bucket));  // drives may have gone meanwhile
    bool jumped = false;
    for (auto& entry : part.entries) {
      if (page.entries.size() == limit) {
        page.more = true;
        co_return page;
      }
      const auto slash = by_directory ? entry.name.find('/', prefix.size()) : std::string::npos;
      if (slash == std::string::npos) {
        page.entries.push_back(std::move(entry));
        continue;
      }
      const std::string directory = entry.name.substr(0, slash + 1);
      // 0xFF is in no UTF-8 name: after everything in the directory.
      const bool done_before = from >= directory + '\xFF';
      if (!done_before && directory > from) page.entries.push_back({directory, {}, nullptr});
      next = directory + '\xFF';
      jumped = true;
      break;
    }
    if (!jumped && !part.more) co_return page;
    from = std::move(next);
  }
}

}  // namespace tarn::target
