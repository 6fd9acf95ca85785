#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "common/base/error.h"
#include "common/base/ids.h"
#include "target/drive/recovery.h"

namespace tarn::target {

/// Evictions by uuid of a drive: what was evicted from it while it was away.
using EvictedDrives = std::map<std::string, EvictedBuckets>;

/// State of a target's drives, remembered on every drive that is there (`.tarn/mirror.json`) and in
/// its own directory. It names those that were away while a name changed, and have not caught up
/// since, and those of which names lie on other drives.
struct MirrorLedger {
  /// uuids of drives that were away while a name changed that has copies
  std::set<std::string> stale;
  /// uuids of drives that were out of service, with objects that have no copies: other drives may
  /// have newer versions of these
  std::set<std::string> stale_single;
  /// uuids of drives of which some names without copies on drives may be misplaced: the newest
  /// version lies on another drive of the target, and on that one alone
  std::set<std::string> misplaced;
  /// Buckets of which every name has at least so many copies on the drives of this target, those
  /// that are away included. Names of other buckets may have fewer.
  std::map<BucketId, std::uint8_t> complete;
  /// Buckets evicted from drives that are away (docs/decisions/025). Where the target's own
  /// directory has such notes, only they count.
  EvictedDrives evicted;

  /// Adds what another place remembers of drives: a drive that is stale in one is stale.
  void add(const MirrorLedger& other) {
    stale.insert(other.stale.begin(), other.stale.end());
    stale_single.insert(other.stale_single.begin(), other.stale_single.end());
    misplaced.insert(other.misplaced.begin(), other.misplaced.end());
    for (const auto& [drive, buckets] : other.evicted) add_evicted(drive, buckets);
  }
  /// Adds to what was evicted from a drive: of each bucket the higher generation.
  void add_evicted(const std::string& drive, const EvictedBuckets& buckets);
  /// Keeps of `complete` what another place has as well: one of them may lack the last note.
  void agree(const MirrorLedger& other);
  [[nodiscard]] std::string json() const;
  /// corrupt when it cannot be understood.
  [[nodiscard]] static Result<MirrorLedger> parse(std::string_view text);

  bool operator==(const MirrorLedger&) const = default;
};

}  // namespace tarn::target
