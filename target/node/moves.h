#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "common/base/async.h"
#include "common/base/error.h"
#include "common/base/mutex.h"
#include "common/cluster/place/ownership.h"
#include "target/node/move_limits.h"
#include "target/store/name_locks.h"

namespace tarn::target {

/// State of a target while objects move between nodes and between its drives: the newest ownership
/// map, who may send it copies, which walk runs. Thread-safe.
class Moves {
 public:
  explicit Moves(std::string self) : self_(std::move(self)) {}

  MoveLimits limits;

  /// Takes a map when it is newer than the one that is known. A rebalance by an older one ends.
  void learn(std::shared_ptr<const cluster::Ownership> map);
  /// Null: none is known, and no copies are taken.
  [[nodiscard]] std::shared_ptr<const cluster::Ownership> map() const;

  /// Success if a copy of a name with `count` replicas would be taken from `sender` by the map that
  /// is known now. conflict with the reason when it is not: it acts by an older map, is not in
  /// ours, or the name belongs elsewhere; unavailable when it acts by a newer map, not known here
  /// yet.
  [[nodiscard]] Status accepts(const std::string& uname, const cluster::ReplicaCount& count,
                               const cluster::CopySender& sender) const;

  /// One walk over the drives at a time: alive until it dies.
  class Walk {
   public:
    ~Walk();
    Walk(Walk&& other) noexcept;
    Walk& operator=(Walk&&) = delete;
    /// Another walk waits, or a newer map is known: this one ends and leaves the rest to it.
    [[nodiscard]] bool superseded() const;

   private:
    friend class Moves;
    Walk(Moves& all, std::uint64_t number, std::uint64_t map_version)
        : all_(&all), number_(number), map_version_(map_version) {}
    Moves* all_;
    std::uint64_t number_;
    std::uint64_t map_version_;  // 0: of a resilver
    NameLocks::Held turn_;
  };
  /// Learns `map`, asks the walk that runs to end, and waits for that. conflict when a newer map is
  /// known, or a rebalance by this one runs.
  Task<Result<Walk>> begin_rebalance(std::shared_ptr<const cluster::Ownership> map);
  /// conflict when any walk runs. A rebalance that begins ends it.
  Task<Result<Walk>> begin_resilver();
  /// No walk runs or waits.
  [[nodiscard]] bool idle() const;

 private:
  const std::string self_;
  NameLocks turns_;
  mutable Mutex mutex_;
  std::shared_ptr<const cluster::Ownership> map_ TARN_GUARDED_BY(mutex_);
  std::uint64_t last_walk_ TARN_GUARDED_BY(mutex_) = 0;  // numbers of walks
  std::uint64_t walks_ TARN_GUARDED_BY(mutex_) = 0;      // run or wait
  std::uint64_t walk_map_ TARN_GUARDED_BY(mutex_) = 0;  // of the last one that began; 0: a resilver
};

}  // namespace tarn::target
