#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <vector>

#include "target/node/node.h"
#include "target/upstream/eviction_owner.h"
#include "target/upstream/eviction_plan.h"

namespace tarn::target {

/// Order for one eviction from one drive: which objects may go, how many, and who hears of it.
struct EvictionOrder {
  EvictionGoal goal;
  std::set<BucketId> only;     ///< of these buckets; empty: of all
  bool ignore_switch = false;  ///< also of buckets with lru.enabled=false
  /// True while a write waits for room: no rests between batches. May be null.
  std::function<bool()> is_urgent;
  /// Called after each object with the bytes of its file, and once more with 0 after each batch,
  /// when the drive's space has been measured.
  std::function<void(std::uint64_t bytes)> on_evicted;
  std::stop_token stop;
};

/// Evicts the least recently used objects of buckets with an upstream, until the goal is reached:
/// those that have files on a drive, copies and slices included. Two walks over the index:
/// EvictionPlan chooses which go. Owners know when objects were read and delete them
/// (eviction_owner.h). Left alone are objects that were read or replaced since, that are being
/// written, and those of owners that do not answer. Errors of the drive; cancelled when it was
/// stopped. `node` and `drive` must outlive it. On one event loop.
class Eviction {
 public:
  Eviction(TargetNode& node, Drive& drive, EvictionOrder order);
  Task<Status> run();

  [[nodiscard]] std::uint64_t objects() const { return objects_; }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  /// Bytes of all files that might have gone.
  [[nodiscard]] std::uint64_t candidate_bytes() const { return plan_.candidate_bytes(); }

 private:
  /// A bucket of which objects may go.
  struct Source {
    cluster::BucketRecord bucket;
    std::uint32_t protect = 0;  // seconds
  };
  /// Place in a walk over a bucket's files on the drive: objects and copies first, then slices.
  struct Position {
    std::string object;
    bool in_slices = false;
    std::optional<SliceKey> slice;
    bool at_end = false;
  };
  using Visit = std::function<void(Evictable file, const EvictionCandidate& candidate)>;
  [[nodiscard]] std::vector<Source> sources() const;
  [[nodiscard]] bool is_reached() const;
  Task<Result<std::vector<Evictable>>> next_objects(const Source& source, Position& at);
  Task<Result<std::vector<Evictable>>> next_slices(const Source& source, Position& at);
  /// Shows the next files after `at`, which it moves on.
  Task<Status> next_page(const Source& source, Position& at, const Visit& visit);
  Task<void> rest_since(std::chrono::steady_clock::time_point begun);
  Task<Status> plan(const Source& source);
  Task<Status> carry_out(const Source& source);
  Task<Status> evict_all(const Source& source, const std::vector<Evictable>& files);
  Task<Status> evict_if_wanted(const Source& source, const Evictable& file);
  Task<Status> evict(const Source& source, const Evictable& file);

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
