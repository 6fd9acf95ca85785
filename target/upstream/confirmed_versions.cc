#include "target/upstream/confirmed_versions.h"

#include <algorithm>
#include <span>
#include <utility>

#include "common/base/hash.h"

namespace tarn::target {
namespace {

/// Two of 2^18 versions have the same hash once in 10^8 targets.
std::uint64_t hash_of(std::string_view key, const Generation& version) {
  std::uint64_t out = xxh64(key);
  for (const std::uint64_t part : {version.map_version, version.incarnation, version.counter})
    out = xxh64(std::as_bytes(std::span(&part, 1)), out);
  return out;
}

}  // namespace

void ConfirmedVersions::note(std::string_view key, const Generation& version, BootTime at) {
  const std::uint64_t hash = hash_of(key, version);
  const MutexLock lock(mutex_);
  auto [entry, is_new] = newer_.try_emplace(hash, at);
  if (!is_new) entry->second = std::max(entry->second, at);
  if (newer_.size() < kMost) return;
  older_ = std::exchange(newer_, {});
}

bool ConfirmedVersions::had_since(std::string_view key, const Generation& version,
                                  BootTime since) const {
  const std::uint64_t hash = hash_of(key, version);
  const MutexLock lock(mutex_);
  for (const Times* times : {&newer_, &older_})
    if (const auto entry = times->find(hash); entry != times->end() && entry->second >= since)
      return true;
  return false;
}

}  // namespace tarn::target
