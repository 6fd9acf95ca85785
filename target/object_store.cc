#include "target/object_store.h"

#include <algorithm>

#include "common/base/fail_point.h"
#include "common/obs/log.h"

namespace tarn::target {
namespace {

bool is_live(const io::ObjectRecord& record) {
  return record.kind == io::ObjectRecord::Kind::object;
}

}  // namespace

ObjectStore::ObjectStore(std::vector<std::unique_ptr<Drive>> drives,
                         std::map<std::string, std::string> missing)
    : drives_(std::move(drives)), missing_(std::move(missing)) {
  for (const auto& drive : drives_) paths_.push_back(drive->path());
  for (const auto& [path, why] : missing_) paths_.push_back(path);
  for (const std::string& path : paths_)
    candidates_.push_back({cluster::placement_digest(path), 1.0});
}

std::vector<std::size_t> ObjectStore::order(const ObjectName& name) const {
  return cluster::placement_order(candidates_, cluster::placement_digest(name.uname));
}

Result<Drive*> ObjectStore::home(const ObjectName& name,
                                 const std::vector<std::size_t>& order) const {
  const std::size_t first = order.front();
  if (first >= drives_.size())
    return fail(Errc::unavailable, "object {} lives on a drive that is away: {}", name.object,
                missing_.at(paths_[first]));
  TRY_OK(drives_[first]->usable());
  return drives_[first].get();
}

Status ObjectStore::reachable(const ObjectName& name) const {
  if (name.copies > 0) return mirror_.writable(name);
  TRY_OK(home(name, order(name)));
  return {};
}

bool ObjectStore::may_hold_foreign() const {
  return std::any_of(drives_.begin(), drives_.end(),
                     [](const auto& drive) { return drive->may_hold_foreign(); });
}

Task<Result<std::vector<Located>>> ObjectStore::find_all(ObjectName name) {
  if (name.copies > 0) co_return co_await mirror_.find_all(std::move(name));
  const auto by_rank = order(name);
  CO_TRY(Drive* const first, home(name, by_rank));
  std::vector<Located> found;
  for (const std::size_t index : by_rank) {
    if (index >= drives_.size()) continue;
    Drive& drive = *drives_[index];
    if (&drive != first && !drive.may_hold_foreign()) continue;
    CO_TRY(auto record, co_await drive.find(name.bucket, name.object));
    if (record) found.push_back({&drive, std::move(*record)});
  }
  std::sort(found.begin(), found.end(), [](const Located& a, const Located& b) {
    return a.record.generation > b.record.generation;
  });
  co_return found;
}

Task<Result<std::vector<Located>>> ObjectStore::find_seen(ObjectName name) {
  if (name.copies > 0) co_return co_await mirror_.find_seen(std::move(name));
  co_return co_await find_all(std::move(name));
}

std::shared_ptr<OpenObject> ObjectStore::find_open(const ObjectName& name) {
  auto object = open_.find(name.bucket, name.object);
  if (!object || !object->drive().usable() || !object->drive().not_overloaded()) return nullptr;
  if (name.copies > 1 && mirror_.has_idler_than(object->drive())) return nullptr;
  return object;
}

Task<Result<std::shared_ptr<OpenObject>>> ObjectStore::open_object(ObjectName name) {
  if (auto object = find_open(name)) co_return std::move(object);
  if (name.copies > 0) co_return co_await mirror_.open(std::move(name), {}, nullptr);
  const OpenObjects::Moment before = open_.now(name.bucket, name.object);
  const auto by_rank = order(name);
  CO_TRY(Drive* const first, home(name, by_rank));
  CO_TRY_OK(first->not_overloaded());
  // Almost always: one drive, one visit to its threads.
  Drive* where = first;
  if (may_hold_foreign()) {
    CO_TRY(const auto found, co_await find_all(name));
    if (!found.empty() && !is_live(found.front().record)) co_return std::shared_ptr<OpenObject>();
    if (!found.empty()) where = found.front().drive;
  }
  CO_TRY(auto object, co_await where->open_object(name.bucket, name.object));
  if (!object && !missing_.empty())
    co_return fail(Errc::unavailable, "object {} is not here, but drive {} is away", name.object,
                   missing_.begin()->first);
  if (object && object->has_checksums()) open_.keep(name.bucket, name.object, before, object);
  co_return object;
}

Task<Result<std::optional<io::ObjectRecord>>> ObjectStore::find(ObjectName name) {
  CO_TRY(auto found, co_await find_all(name));
  if (found.empty() && name.copies == 0 && !missing_.empty())
    co_return fail(Errc::unavailable, "object {} is not here, but drive {} is away", name.object,
                   missing_.begin()->first);
  if (found.empty() || !is_live(found.front().record)) co_return std::optional<io::ObjectRecord>();
  co_return std::move(found.front().record);
}

Task<Result<std::unique_ptr<WorkFile>>> ObjectStore::create(ObjectName name,
                                                            std::optional<std::uint64_t> length) {
  const auto by_rank = order(name);
  if (name.copies == 0) {
    CO_TRY(Drive* const first, home(name, by_rank));
    CO_TRY_OK(first->not_overloaded());
  }
  Error last{Errc::unavailable, "no drive of this target takes new files"};
  // First below the high watermark, then, when all are above it, up to where nothing goes any more.
  for (const bool above_watermark : {false, true}) {
    for (const std::size_t index : by_rank) {
      if (index >= drives_.size()) continue;
      if (name.copies > 0 && !drives_[index]->not_overloaded()) continue;
      auto file = co_await drives_[index]->create(length, above_watermark);
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
  if (name.copies > 0)
    co_return co_await mirror_.publish(std::move(name), file, std::move(attribute),
                                       std::move(checksums));
  Drive& drive = file.drive();
  const auto by_rank = order(name);
  const bool foreign = paths_[by_rank.front()] != drive.path();
  std::optional<io::ObjectRecord> replaced;
  for (const Located& other : others) {
    if (other.drive == &drive) {
      replaced = other.record;
    } else {
      durability = cluster::Durability::full;  // what is removed below must have a successor
    }
  }
  const OpenObjects::Change change(open_, name.bucket, name.object);
  io::ObjectRecord marker = attribute.record;
  marker.kind = io::ObjectRecord::Kind::tombstone;
  CO_TRY_OK(co_await drive.publish(file, {std::move(attribute), std::move(checksums),
                                          std::move(replaced), foreign, durability}));
  for (const Located& other : others) {
    if (other.drive == &drive) continue;
    // Only a leftover from here on: the higher generation wins if it cannot be removed now.
    const Status gone = co_await other.drive->remove(name.bucket, name.object, marker, false);
    if (!gone)
      obs::log("target").warn("older version not removed object={} drive={} err={}", name.object,
                              other.drive->path(), gone.error().message);
  }
  co_return Status();
}

Task<Status> ObjectStore::patch(ObjectName name, Drive& drive, io::ObjectAttribute attribute) {
  if (name.copies > 0) co_return co_await mirror_.patch(std::move(name), std::move(attribute));
  const OpenObjects::Change change(open_, name.bucket, name.object);
  co_return co_await drive.patch(std::move(attribute));
}

Task<Status> ObjectStore::remove(ObjectName name, std::vector<Located> present,
                                 io::ObjectRecord tombstone) {
  if (name.copies > 0) co_return co_await mirror_.remove(std::move(name), std::move(tombstone));
  const OpenObjects::Change change(open_, name.bucket, name.object);
  // The newest last: until it is gone the name still reads as that version, never as an older one.
  for (auto at = present.rbegin(); at != present.rend(); ++at)
    CO_TRY_OK(co_await at->drive->remove(name.bucket, name.object, tombstone, true));
  co_return Status();
}

void ObjectStore::forget_bucket(BucketId bucket) {
  open_.forget_bucket(bucket);
  for (const auto& drive : drives_) drive->forget_bucket(bucket);
}

/// One page of every drive, merged. `next`: where the following call goes on.
Task<Result<ObjectStore::Page>> ObjectStore::list_once(BucketId bucket, const std::string& prefix,
                                                       const std::string& after, std::size_t limit,
                                                       std::string& next) {
  std::map<std::string, Listed> merged;
  std::optional<std::string> bound;  // beyond it some drive has not said all yet
  for (const auto& drive : drives_) {
    CO_TRY_OK(drive->not_overloaded());
    CO_TRY(auto listing, co_await drive->list(bucket, prefix, after, limit));
    if (listing.more && (!bound || listing.entries.back().name < *bound))
      bound = listing.entries.back().name;
    for (auto& entry : listing.entries) {
      const auto [at, is_new] = merged.try_emplace(entry.name);
      Listed& newest = at->second;
      if (is_new || newest.record.generation < entry.record.generation) {
        newest = {entry.name, std::move(entry.record), drive.get()};
      } else if (newest.record.generation == entry.record.generation) {
        ++newest.copies;
      }
    }
  }
  Page page;
  page.more = bound.has_value();
  for (auto& [name, newest] : merged) {
    if (bound && name > *bound) break;
    if (is_live(newest.record)) page.entries.push_back(std::move(newest));
  }
  if (bound) next = *bound;
  co_return page;
}

Task<Result<ObjectStore::Page>> ObjectStore::list(BucketId bucket, std::string prefix,
                                                  std::string after, std::size_t limit,
                                                  bool by_directory) {
  if (!missing_.empty())
    co_return fail(Errc::unavailable, "a list would be short: {}", missing_.begin()->second);
  Page page;
  std::string from = std::move(after);
  while (true) {
    std::string next;
    CO_TRY(auto part, co_await list_once(bucket, prefix, from, limit, next));
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
      // 0xFF is in no UTF-8 name: behind everything in the directory.
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
