#pragma once

#include <chrono>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "common/base/clock.h"
#include "common/base/hash.h"
#include "common/base/mutex.h"

namespace tarn::target {

/// Since when drives of this target are away: a slice that is nowhere may be on one of them, and be
/// back with it. Thread-safe.
class DrivesAway {
 public:
  /// A drive that is away for longer is believed to be lost (docs/decisions/019, "Repair").
  static constexpr std::chrono::seconds kBelievedLost{60};

  /// `paths`: of those that are away now.
  void learn(const std::set<std::string>& paths, BootTime now) {
    const MutexLock lock(mutex_);
    std::erase_if(since_, [&](const auto& each) { return !paths.contains(each.first); });
    for (const std::string& path : paths) since_.try_emplace(path, now);
  }
  /// Hash of the paths of drives that are believed lost (kBelievedLost); 0: none is.
  [[nodiscard]] std::uint64_t believed_lost(BootTime now) const {
    const MutexLock lock(mutex_);
    std::string paths;
    for (const auto& [path, since] : since_)
      if (now - since >= kBelievedLost) paths += path + '\n';
    return paths.empty() ? 0 : xxh64(std::string_view(paths));
  }
  /// True if a drive that is away may come back with what it has.
  [[nodiscard]] bool any_expected(BootTime now) const {
    const MutexLock lock(mutex_);
    for (const auto& [path, since] : since_)
      if (now - since < kBelievedLost) return true;
    return false;
  }

 private:
  mutable Mutex mutex_;
  std::map<std::string, BootTime> since_ TARN_GUARDED_BY(mutex_);
};

}  // namespace tarn::target
