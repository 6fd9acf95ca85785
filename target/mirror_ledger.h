#pragma once

#include <set>
#include <string>
#include <string_view>

#include "common/base/error.h"

namespace tarn::target {

/// What a target remembers of its drives, on every drive that is there (`.tarn/mirror.json`) and in
/// its own directory: which of them were away while a name changed, and have not caught up since.
struct MirrorLedger {
  /// uuids of drives that were away while a name changed that has copies
  std::set<std::string> behind;
  /// uuids of drives that were out of service, with objects that have no copies: others may have
  /// newer versions of these
  std::set<std::string> outdated;

  /// Adds what another place remembers: who is behind in one is behind.
  void add(const MirrorLedger& other) {
    behind.insert(other.behind.begin(), other.behind.end());
    outdated.insert(other.outdated.begin(), other.outdated.end());
  }
  [[nodiscard]] bool empty() const { return behind.empty() && outdated.empty(); }
  [[nodiscard]] std::string json() const;
  /// corrupt when it cannot be understood.
  [[nodiscard]] static Result<MirrorLedger> parse(std::string_view text);

  bool operator==(const MirrorLedger&) const = default;
};

}  // namespace tarn::target
