#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include <prometheus/metric_family.h>

#include "common/base/clock.h"
#include "common/base/ids.h"
#include "common/base/mutex.h"
#include "common/cluster/state/state.h"
#include "proxy/admin/redundancy_tally.h"

namespace tarn::proxy {

/// Last count of each bucket, for the metrics. Counts that may be wrong by now are not shown: a
/// bucket whose count failed goes at once, and so does a count that is older than three rounds of
/// all buckets take. Thread-safe.
class RedundancyBoard {
 public:
  struct Counted {
    Redundancy redundancy;
    BootTime began{};  ///< the count
    /// As unverified_since() (scrub_ages.h) has it.
    std::optional<std::int64_t> verified_ns;
  };

  /// Notes that all buckets are about to be counted; once that has ended, again after `interval`.
  void round_begins(BootTime now, std::chrono::nanoseconds interval);
  void put(BucketId bucket, Counted counted);
  /// Notes that a bucket could not be counted.
  void drop(BucketId bucket);
  /// Notes that all buckets have been counted, or tried.
  void round_ends(BootTime now);
  /// Notes that another proxy counts.
  void clear();

  /// The gauges of docs/metrics.md, "Redundancy", of the buckets that are in `state`.
  [[nodiscard]] std::vector<prometheus::MetricFamily> gauges(const cluster::ClusterState& state,
                                                             BootTime now, WallTime wall) const;

 private:
  [[nodiscard]] bool is_stale(const Counted& counted, BootTime now) const TARN_REQUIRES(mutex_);

  mutable Mutex mutex_;
  std::map<BucketId, Counted> counted_ TARN_GUARDED_BY(mutex_);
  BootTime round_began_ TARN_GUARDED_BY(mutex_){};
  std::chrono::nanoseconds interval_ TARN_GUARDED_BY(mutex_){};
  /// Duration of the last round that has ended.
  std::optional<std::chrono::nanoseconds> round_took_ TARN_GUARDED_BY(mutex_);
};

}  // namespace tarn::proxy
