#include "target/store/open_objects.h"

#include <algorithm>

#include "common/base/check.h"
#include "common/base/fail_point.h"
#include "common/base/hash.h"
#include "common/base/process.h"

namespace tarn::target {
namespace {

constexpr std::size_t kBytesMax = 16U << 20U;
constexpr std::size_t kEntryBytes = 1024;  // about, without checksums and metadata

std::size_t bytes_of(std::string_view name, const OpenObject& object) {
  // Metadata is there twice: in the record, and as it goes out.
  return kEntryBytes + name.size() + 2 * object.field_lines().size() +
         blocks_of(object.file_bytes()) * sizeof(std::uint32_t);
}

}  // namespace

std::size_t OpenObjects::Hash::operator()(const Key& key) const {
  return xxh64(key.name, raw(key.bucket));
}

OpenObjects::OpenObjects() = default;
OpenObjects::~OpenObjects() = default;

void OpenObjects::Shard::take(Entries::iterator entry, Entries& into) {
  const std::size_t erased = by_name.erase({entry->bucket, entry->name});
  TARN_CHECK(erased == 1);
  TARN_CHECK(entry->bytes <= bytes);
  bytes -= entry->bytes;
  into.splice(into.end(), entries, entry);
}

std::shared_ptr<OpenObject> OpenObjects::find(BucketId bucket, std::string_view name) {
  const Key key{bucket, name};
  Shard& shard = shard_of(key);
  const MutexLock lock(shard.mutex);
  const auto found = shard.by_name.find(key);
  if (found == shard.by_name.end()) return nullptr;
  shard.entries.splice(shard.entries.begin(), shard.entries, found->second);
  return found->second->object;
}

OpenObjects::Moment OpenObjects::now(BucketId bucket, std::string_view name) {
  Shard& shard = shard_of({bucket, name});
  const MutexLock lock(shard.mutex);
  return shard.moment;
}

void OpenObjects::keep(BucketId bucket, std::string_view name, Moment since,
                       const std::shared_ptr<OpenObject>& object) {
  TARN_CHECK(object->has_checksums());  // several readers share it from here on
  const std::size_t count_max = std::min(kCountMax, open_files_max() / 8) / kShards;
  const std::size_t bytes = bytes_of(name, *object);
  if (count_max == 0 || bytes > kBytesMax / kShards) return;
  Shard& shard = shard_of({bucket, name});
  Entries gone;  // let go of when the lock is no longer held
  const MutexLock lock(shard.mutex);
  const bool is_changing = std::find(shard.changing.begin(), shard.changing.end(),
                                     std::pair(bucket, std::string(name))) != shard.changing.end();
  if (is_changing || shard.dead.contains(bucket)) return;
  if (shard.moment != since || shard.by_name.contains({bucket, name})) return;
  shard.entries.push_front({bucket, std::string(name), object, bytes});
  shard.by_name.emplace(Key{bucket, shard.entries.front().name}, shard.entries.begin());
  shard.bytes += bytes;
  while (shard.entries.size() > count_max || shard.bytes > kBytesMax / kShards)
    shard.take(std::prev(shard.entries.end()), gone);
  TARN_CHECK(shard.by_name.size() == shard.entries.size());
}

OpenObjects::Change::Change(OpenObjects& all, BucketId bucket, std::string name)
    : all_(all), bucket_(bucket), name_(std::move(name)) {
  const Key key{bucket_, name_};
  Shard& shard = all_.shard_of(key);
  Entries gone;
  const MutexLock lock(shard.mutex);
  ++shard.moment;
  shard.changing.emplace_back(bucket_, name_);
  const auto found = shard.by_name.find(key);
  if (SAFETY("safety.close_replaced") && found != shard.by_name.end())
    shard.take(found->second, gone);
}

OpenObjects::Change::~Change() {
  Shard& shard = all_.shard_of({bucket_, name_});
  const MutexLock lock(shard.mutex);
  ++shard.moment;
  const auto mine =
      std::find(shard.changing.begin(), shard.changing.end(), std::pair(bucket_, name_));
  TARN_CHECK(mine != shard.changing.end());
  shard.changing.erase(mine);
}

void OpenObjects::forget_drive(const Drive& drive) {
  for (Shard& shard : shards_) {
    Entries gone;
    const MutexLock lock(shard.mutex);
    for (auto entry = shard.entries.begin(); entry != shard.entries.end();) {
      const auto here = entry++;
      if (&here->object->drive() == &drive) shard.take(here, gone);
    }
  }
}

void OpenObjects::forget_bucket(BucketId bucket) {
  for (Shard& shard : shards_) {
    Entries gone;
    const MutexLock lock(shard.mutex);
    shard.dead.insert(bucket);
    for (auto entry = shard.entries.begin(); entry != shard.entries.end();) {
      const auto here = entry++;
      if (here->bucket == bucket) shard.take(here, gone);
    }
  }
}

}  // namespace tarn::target
