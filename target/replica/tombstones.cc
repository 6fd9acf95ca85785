#include "target/replica/tombstones.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/pause.h"
#include "common/cluster/place/hrw.h"
#include "common/obs/log.h"
#include "target/drive/record_pages.h"
#include "target/replica/node_copies.h"

namespace tarn::target {
namespace {

using std::chrono::steady_clock;

constexpr PageSize kTombstonesPage{.records = 1000, .items = 1000};
constexpr int kRestFactor = 9;
constexpr int kLooksWithinKeep = 8;
constexpr std::chrono::milliseconds kLookEveryMin{200};

/// One look through the index of one drive. For one loop.
class Sweep {
 public:
  Sweep(TargetNode& node, const TombstoneRules& rules, std::shared_ptr<Drive> drive)
      : node_(node),
        rules_(rules),
        drive_(std::move(drive)),
        before_ns_((node.clock.wall_time() - rules.keep).count()) {}

  Task<void> run() {
    const auto state = node_.view.state();
    for (const auto& [name, bucket] : state->bmd.buckets) {
      RecordPages<Found> pages(
          *drive_, bucket.id,
          [this](std::string_view object, const io::ObjectRecord& record, auto& to) {
            if (record.kind == io::ObjectRecord::Kind::tombstone && record.modified_ns < before_ns_)
              to.push_back({std::string(object), record.generation});
          },
          kTombstonesPage);
      while (pages.more()) {
        const auto begun = steady_clock::now();
        if (!may_forget_any()) co_return;
        const auto page = co_await pages.next();
        if (!page) co_return;  // a drive that fails is looked after by other tasks
        for (const Found& found : *page) {
          const Status done = co_await forget(name_in(bucket, found.name), found.generation);
          if (!done) co_return;
        }
        co_await pause(kRestFactor * (steady_clock::now() - begun));
      }
    }
  }
  [[nodiscard]] std::uint64_t forgotten() const { return forgotten_; }

 private:
  struct Found {
    std::string name;
    Generation generation;
  };

  [[nodiscard]] bool may_forget_any() const {
    const auto state = node_.owned.state();
    return node_.membership.lease().valid() && state->settled >= state->map->version &&
           node_.view.state()->map.version == state->map->version &&
           node_.store.missing().empty() && node_.store.mirror().stale().empty() &&
           rules_.all_drives_in_service();
  }
  /// Tombstones stay where objects have copies on several targets: all of these would have to be
  /// asked if a drive of theirs is away.
  [[nodiscard]] bool may_forget(const ObjectName& name) const {
    const cluster::ReplicaCount count = replica_count_of(node_, name.bucket);
    const bool others_confirmed = !count.many();
    return may_forget_any() && cluster::may_drop_tombstone(*node_.owned.state()->map, node_.id,
                                                           cluster::placement_digest(name.uname),
                                                           count, others_confirmed);
  }

  /// Forgets nothing of a name that has changed since it was looked at.
  Task<Status> forget(ObjectName name, Generation generation) {
    const auto held = co_await node_.store.locks().acquire(name.key());
    if (!may_forget(name) || !node_.owned.is_quiescent(name.uname)) co_return Status();
    CO_TRY(auto present, co_await node_.store.find_all(name));
    if (present.empty() || present.front().record.generation != generation ||
        present.front().record.kind != io::ObjectRecord::Kind::tombstone)
      co_return Status();
    CO_TRY_OK(co_await node_.store.forget(name, std::move(present)));
    ++forgotten_;
    co_return Status();
  }

  TargetNode& node_;
  const TombstoneRules& rules_;
  const std::shared_ptr<Drive> drive_;
  const std::int64_t before_ns_;
  std::uint64_t forgotten_ = 0;
};

}  // namespace

Task<void> forget_tombstones(TargetNode& node, TombstoneRules rules) {
  while (true) {
    co_await pause(std::max(rules.keep / kLooksWithinKeep, kLookEveryMin));
    const auto drives = node.store.drives();
    for (const auto& drive : drives) {
      Sweep sweep(node, rules, drive);
      co_await sweep.run();
      if (sweep.forgotten() > 0)
        obs::log("target").info("tombstones forgotten drive={} count={}", drive->path(),
                                sweep.forgotten());
    }
  }
}

}  // namespace tarn::target
