#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <stop_token>
#include <string>
#include <vector>

#include "common/api/bucket_copy.h"
#include "common/base/mutex.h"
#include "common/obs/metrics.h"
#include "target/node/node.h"
#include "target/node/room_maker.h"
#include "target/upstream/eviction.h"

namespace tarn::target {

/// Keeps room on the drives of a target (docs/decisions/022): evicts from a drive that passed the
/// high watermark, and where a write found no room. One eviction a drive at a time. Thread-safe.
class SpaceKeeper final : public RoomMaker {
 public:
  /// `node` must outlive it, and its tasks.
  explicit SpaceKeeper(TargetNode& node);
  ~SpaceKeeper() override;

  /// Background task: looks after one drive until it is detached. Saves its access times, too.
  Task<void> keep(std::shared_ptr<Drive> drive);

  Task<bool> make_room(ObjectName name, std::uint64_t bytes,
                       std::chrono::steady_clock::time_point until) override;

  /// An operator's order, for each drive.
  struct Order {
    std::set<BucketId> only;     ///< of these buckets; empty: of all
    bool ignore_switch = false;  ///< also of buckets with lru.enabled=false
  };
  /// Evicts from a drive until its low watermark, and counts in `progress`. Waits for an eviction
  /// of the same drive that is under way. Errors of Eviction::run().
  Task<Status> evict(Drive& drive, const Order& order, api::CopyProgress& progress,
                     std::stop_token stop);

  struct Counts {
    std::atomic<std::uint64_t> objects{0};
    std::atomic<std::uint64_t> bytes{0};
    std::atomic<std::uint64_t> running{0};  ///< drives that are being evicted from
  };
  [[nodiscard]] const Counts& counts() const { return counts_; }

 private:
  struct Demand;
  struct DriveSpace;
  [[nodiscard]] std::shared_ptr<DriveSpace> space_of(const Drive& drive);
  [[nodiscard]] bool has_room_for(const Drive& drive, std::uint64_t bytes) const;
  Task<bool> make_room_on(Drive& drive, std::uint64_t bytes,
                          std::chrono::steady_clock::time_point until);
  Task<void> look(Drive& drive, DriveSpace& space);
  Task<void> drop_slices_first(Drive& drive, DriveSpace& space);
  Task<void> answer_demands(Drive& drive, DriveSpace& space);
  Task<Status> run(Drive& drive, EvictionOrder order, std::uint64_t& objects);

  TargetNode& node_;
  Counts counts_;
  NameLocks turns_;  // by the id of a drive: evictions from it; and a word for drops of slices
  Mutex mutex_;
  std::map<std::string, std::shared_ptr<DriveSpace>> drives_ TARN_GUARDED_BY(mutex_);  // by id
};

/// Routes of the internal listener: a target's part of the job lru (eviction_job.cc).
///
///   POST   /v1/internal/evict  {"job":ID,"buckets":[IDS],"force":BOOL}: the answer is lines of
///                              api::CopyProgress (target/node/job_stream.h). No buckets: all
///   DELETE /v1/internal/evict  job=ID: stops it
[[nodiscard]] std::vector<http::Route> space_routes(TargetNode& node, SpaceKeeper& keeper);

/// The metrics tarn_evict* (docs/metrics.md). Both must outlive `metrics`.
void export_space(obs::Metrics& metrics, const SpaceKeeper& keeper);

}  // namespace tarn::target
