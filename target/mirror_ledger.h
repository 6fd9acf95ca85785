#pragma once

#include <set>
#include <string>
#include <string_view>

#include "common/base/error.h"

namespace tarn::target {

/// What a target remembers of its drives for the sake of mirrored buckets, on every drive that is
/// there (`.tarn/mirror.json`) and in its own directory: which of them were away while a mirrored
/// name changed, and have not caught up since.
struct MirrorLedger {
  std::set<std::string> behind;  ///< uuids of drives

  /// Adds what another place remembers: who is behind in one is behind.
  void add(const MirrorLedger& other) { behind.insert(other.behind.begin(), other.behind.end()); }
  [[nodiscard]] std::string json() const;
  /// corrupt when it cannot be understood.
  [[nodiscard]] static Result<MirrorLedger> parse(std::string_view text);

  bool operator==(const MirrorLedger&) const = default;
};

}  // namespace tarn::target
