#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "common/base/error.h"
#include "common/base/ids.h"

namespace tarn::target {

/// What a target remembers of its drives, on every drive that is there (`.tarn/mirror.json`) and in
/// its own directory: which of them were away while a name changed, and have not caught up since,
/// and of which of them names lie on others.
struct MirrorLedger {
  /// uuids of drives that were away while a name changed that has copies
  std::set<std::string> behind;
  /// uuids of drives that were out of service, with objects that have no copies: others may have
  /// newer versions of these
  std::set<std::string> outdated;
  /// uuids of drives of which some names without copies on drives may be misplaced: the newest
  /// version lies on another drive of the target, and on that one alone
  std::set<std::string> misplaced;
  /// Buckets of which every name has at least so many copies on the drives of this target, those
  /// that are away included. What is not here may have fewer.
  std::map<BucketId, std::uint8_t> complete;

  /// Adds what another place remembers of drives: who is behind in one is behind.
  void add(const MirrorLedger& other) {
    behind.insert(other.behind.begin(), other.behind.end());
    outdated.insert(other.outdated.begin(), other.outdated.end());
    misplaced.insert(other.misplaced.begin(), other.misplaced.end());
  }
  /// Keeps of `complete` what another place says as well: one of them may not have heard the last.
  void agree(const MirrorLedger& other);
  [[nodiscard]] std::string json() const;
  /// corrupt when it cannot be understood.
  [[nodiscard]] static Result<MirrorLedger> parse(std::string_view text);

  bool operator==(const MirrorLedger&) const = default;
};

}  // namespace tarn::target
