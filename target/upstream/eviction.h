#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <set>
#include <stop_token>
#include <string>
#include <vector>

#include "target/node/node.h"
#include "target/upstream/eviction_plan.h"

namespace tarn::target {

/// Order for one eviction from one drive: which objects may go, how many, and who is told.
struct EvictionOrder {
  EvictionGoal goal;
  std::set<BucketId> only;     ///< of these buckets; empty: of all
  bool ignore_switch = false;  ///< also of buckets with lru.enabled=false
  /// True while a write waits for room: no rests between batches. May be null.
  std::function<bool()> is_urgent;
  /// Called after each object with its bytes, and once more with 0 after each batch, when the
  /// drive's space has been measured.
  std::function<void(std::uint64_t bytes)> on_evicted;
  std::stop_token stop;
};

/// Evicts the least recently used objects of a drive whose buckets have an upstream, until the goal
/// is reached, by two walks over the index: EvictionPlan says which. Each object goes by
/// compare-and-delete on the generation that the walk saw, with a tombstone, and so do its copies
/// on other drives and targets. Left alone are objects that were read or replaced since, names of
/// other targets, names on their way, and names that are being written. Errors of the drive;
/// cancelled when it was stopped. `node` and `drive` must outlive it. On one event loop.
class Eviction {
 public:
  Eviction(TargetNode& node, Drive& drive, EvictionOrder order);
  Task<Status> run();

  [[nodiscard]] std::uint64_t objects() const { return objects_; }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  /// Bytes of all objects that might have gone.
  [[nodiscard]] std::uint64_t candidate_bytes() const { return plan_.candidate_bytes(); }

 private:
  /// A bucket of which objects may go.
  struct Source {
    cluster::BucketRecord bucket;
    std::uint32_t protect = 0;  // seconds
  };
  struct Pick {
    std::string name;
    Generation generation;
    std::uint32_t last = 0;  // access, when it was chosen
    std::uint64_t bytes = 0;
  };
  using Visit = std::function<void(Pick pick, const EvictionCandidate& candidate)>;
  [[nodiscard]] std::vector<Source> sources() const;
  [[nodiscard]] bool is_reached() const;
  /// Shows the objects of the next page behind `after`, which it moves on. False: it was the last.
  Task<Result<bool>> next_page(const Source& source, std::string& after, const Visit& visit);
  /// Seconds since the epoch.
  [[nodiscard]] std::uint32_t last_access(const Source& source, const std::string& name) const;
  Task<void> rest_since(std::chrono::steady_clock::time_point begun);
  Task<Status> plan(const Source& source);
  Task<Status> carry_out(const Source& source);
  Task<Status> evict_all(const Source& source, const std::vector<Pick>& picks);
  Task<Status> work(const Source& source, const std::vector<Pick>& picks, std::size_t& next);
  Task<Status> evict(const Source& source, const Pick& pick);

  TargetNode& node_;
  Drive& drive_;
  const EvictionOrder order_;
  const std::int64_t now_;  // seconds since the epoch
  const std::uint64_t free_before_;
  EvictionPlan plan_;
  std::uint64_t objects_ = 0;
  std::uint64_t bytes_ = 0;
  std::uint64_t failed_ = 0;
};

}  // namespace tarn::target
