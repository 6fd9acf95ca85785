#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "common/base/ids.h"
#include "common/base/mutex.h"

namespace tarn::target {

/// Names that were stored here as pending, so perhaps not at all replicas (node_copies.h), until
/// that is known. So what a writer left half done is resolved although no reader asks for it.
/// Thread-safe; bounded.
class PendingNames {
 public:
  using Time = std::chrono::steady_clock::time_point;
  struct Name {
    BucketId bucket{};
    std::string object;
    Time since;
  };
  static constexpr std::size_t kMost = 100'000;

  /// Its newest version here is pending since `now`.
  void add(BucketId bucket, const std::string& object, Time now);
  /// Removes a name that is no longer pending.
  void resolved(BucketId bucket, const std::string& object);
  /// Returns names that are pending since `until` or longer; from now on they count as pending
  /// since `now`.
  [[nodiscard]] std::vector<Name> due(Time until, Time now);
  /// Removes a name that was due and is complete, unless it was added again since.
  void resolved(const Name& due);

  /// True if all drives have been looked through for marks that are not known here: after a start,
  /// with a new map, and when there were too many names.
  void looked_through(bool all) { looked_through_ = all; }
  [[nodiscard]] bool looked_through() const { return looked_through_; }
  /// Number of names; one more when not all drives were looked through.
  [[nodiscard]] std::size_t count() const;

 private:
  mutable Mutex mutex_;
  std::map<std::pair<BucketId, std::string>, Time> names_ TARN_GUARDED_BY(mutex_);
  std::atomic<bool> looked_through_ = false;
};

}  // namespace tarn::target
