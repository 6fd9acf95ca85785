#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <unordered_map>

#include "common/base/clock.h"
#include "common/base/ids.h"
#include "common/base/mutex.h"

namespace tarn::target {

/// Stored versions that upstream was known to have, and when. In memory, of the last kMost to
/// 2 x kMost versions; one that is not here is checked with upstream again. Thread-safe.
class ConfirmedVersions {
 public:
  static constexpr std::size_t kMost = 128U << 10U;  ///< at most 16 MiB for all

  /// Upstream had this version of the object at `at`. `key`: of the object's name.
  void note(std::string_view key, const Generation& version, BootTime at);
  /// True if upstream is known to have had this version at `since` or later.
  [[nodiscard]] bool had_since(std::string_view key, const Generation& version,
                               BootTime since) const;

 private:
  using Times = std::unordered_map<std::uint64_t, BootTime>;  // by a hash of name and version

  mutable Mutex mutex_;
  Times newer_ TARN_GUARDED_BY(mutex_);
  Times older_ TARN_GUARDED_BY(mutex_);  // the kMost versions before
};

}  // namespace tarn::target
