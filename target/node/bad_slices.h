#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <vector>

#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/mutex.h"
#include "target/drive/index.h"

namespace tarn::target {

/// True if the file itself cannot be read as it was written: its bytes or its drive are bad.
[[nodiscard]] inline bool is_bad_file(const Error& error) {
  return error.code == Errc::corrupt || error.code == Errc::io;
}

/// Slices on this target that a reader found bad, or gone though their entry is there, until they
/// have been made anew. A restart forgets them; the next reader, or scrub, finds them again.
/// Thread-safe.
class BadSlices {
 public:
  /// More than these are forgotten: it is a drive that is bad.
  static constexpr std::size_t kMax = 10'000;
  /// Time after which a slice is reported to its owner again.
  static constexpr std::chrono::seconds kTellEvery{5};

  void add(const SliceKey& key) {
    const MutexLock lock(mutex_);
    if (told_.size() < kMax) told_.try_emplace(key, BootTime::min());
  }
  /// Forgets a slice that is not here any more, or was replaced.
  void erase(const SliceKey& key) {
    const MutexLock lock(mutex_);
    told_.erase(key);
  }
  /// Forgets all of them: a drive has gone, or come back, whose errors were not those of its
  /// slices. The next reader, or scrub, finds what is bad.
  void forget() {
    const MutexLock lock(mutex_);
    told_.clear();
  }
  [[nodiscard]] bool contains(const SliceKey& key) const {
    const MutexLock lock(mutex_);
    return told_.contains(key);
  }
  /// Returns the slices whose owners are to hear of them now.
  [[nodiscard]] std::vector<SliceKey> to_tell(BootTime now) {
    const MutexLock lock(mutex_);
    std::vector<SliceKey> out;
    for (auto& [key, told] : told_) {
      if (told != BootTime::min() && now - told < kTellEvery) continue;
      told = now;
      out.push_back(key);
    }
    return out;
  }

 private:
  mutable Mutex mutex_;
  std::map<SliceKey, BootTime> told_ TARN_GUARDED_BY(mutex_);
};

}  // namespace tarn::target
