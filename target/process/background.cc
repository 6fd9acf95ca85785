// Tasks that run beside requests until the target stops.

#include "common/base/event.h"
#include "common/base/pause.h"
#include "common/cluster/node/dismissal.h"
#include "common/http/loop_watch.h"
#include "common/obs/log.h"
#include "target/coded/slice_holder.h"
#include "target/job/bucket_mirror.h"
#include "target/job/erase_all.h"
#include "target/process/target.h"
#include "target/rebalance/handoff.h"
#include "target/rebalance/request_jobs.h"
#include "target/repair/double_slices.h"
#include "target/repair/drive_scrub.h"
#include "target/repair/heed_losses.h"
#include "target/repair/keep_coded.h"
#include "target/repair/keep_recoded.h"
#include "target/repair/lost_records.h"
#include "target/repair/repair_requested.h"
#include "target/replica/resolve_pending.h"
#include "target/replica/tombstones.h"
#include "target/request/handlers.h"

namespace tarn::target {
namespace {

constexpr auto kProbeEvery = std::chrono::seconds(1);
constexpr auto kCloseEvery = std::chrono::milliseconds(500);

/// Looks after one drive, once a second, while it is one of the target's.
Task<void> watch_drive(ObjectStore& store, std::shared_ptr<Drive> drive) {
  while (store.drive_at(drive->path()) == drive) {
    static_cast<void>(co_await drive->probe());
    co_await pause_until(next_tick(kProbeEvery));
  }
}

Task<void> close_detached(DriveAdmin& admin) {
  while (true) {
    co_await pause_until(next_tick(kCloseEvery));
    co_await admin.close_detached();
    co_await admin.tend_leaving();
  }
}

Task<void> tend_away(DriveAdmin& admin) {
  while (true) {
    co_await pause_until(next_tick(kProbeEvery));
    co_await admin.tend_away();
  }
}

}  // namespace

/// After the join.
void Target::start_background() {
  http::Loop& loop = loops_.at(0);
  tasks_.spawn(loop.executor(), "statistics",
               http::every(cluster::NodeStats::kInterval, [this] { stats_->tick(); }));
  for (const auto& drive : store_->drives()) look_after(drive, false);
  tasks_.spawn(loop.executor(), "detached drives", close_detached(*admin_));
  tasks_.spawn(loop.executor(), "drives that are away", tend_away(*admin_));
  // Apart from those, which wait for their drives.
  tasks_.spawn(loop.executor(), "drive watch", http::every(kProbeEvery, [this] {
                 const auto drives = store_->drives();
                 for (const auto& drive : drives) drive->watch();
                 slow_drives_.look(drives);
               }));
  tasks_.spawn(loop.executor(), "copies on drives", keep_mirrors(*node_));
  tasks_.spawn(loop.executor(), "job requests", request_jobs(*node_));
  tasks_.spawn(loop.executor(), "copies on nodes", resolve_pending(*node_));
  tasks_.spawn(loop.executor(), "abandoned appends", drop_abandoned_appends(*node_));
  tasks_.spawn(loop.executor(), "upstream credentials", upstream_->keep_credentials());
  tasks_.spawn(loop.executor(), "abandoned uploads", write_through_->open_uploads().remove_left());
  tasks_.spawn(loop.executor(), "slices", look_after_slices(*node_));
  tasks_.spawn(loop.executor(), "coded objects", keep_coded(*node_));
  tasks_.spawn(loop.executor(), "losses", heed_losses(*node_));
  tasks_.spawn(loop.executor(), "lost records", give_lost_records(*node_));
  tasks_.spawn(loop.executor(), "double slices", keep_slices_single(*node_));
  tasks_.spawn(loop.executor(), "repair requests", repair_requested(*node_));
  tasks_.spawn(loop.executor(), "other codings", keep_recoded(*node_));
  TombstoneRules tombstones{options_.tombstone_keep, [this] { return admin_->all_in_service(); }};
  tasks_.spawn(loop.executor(), "tombstones", forget_tombstones(*node_, std::move(tombstones)));
  // Not beside the other tasks, if there is another loop.
  tasks_.spawn(loops_.at(loops_.size() - 1).executor(), "rebalance", handoff(*node_));
  tasks_.spawn(loop.executor(), "dismissal",
               cluster::obey_dismissal(*view_, *membership_, [this] { return erase_all(*node_); }));
}

/// Runs until the drive is detached. `came`: it came after the start.
void Target::look_after(const std::shared_ptr<Drive>& drive, bool came) {
  drive->ring_on_health(node_->readiness_changed);
  tasks_.spawn(loops_.at(0).executor(), "probes of " + drive->path(), watch_drive(*store_, drive));
  tasks_.spawn(loops_.at(0).executor(), "space of " + drive->path(), space_->keep(drive));
  tasks_.spawn(loops_.at(0).executor(), "scrub of " + drive->path(),
               keep_scrubbed(*node_, drive, came));
}

void Target::watch_disks() {
  std::set<std::string> disks;
  for (const auto& drive : store_->drives())
    if (!drive->mount().disk.empty()) disks.insert(drive->mount().disk);
  stats_->watch_disks(std::move(disks));
}

void Target::drives_changed() {
  watch_disks();
  owned_->take_drives(drive_count());
  if (const Status written = write_node(); !written)
    obs::log("target").warn("node.json not written err={}", written.error().message);
}

}  // namespace tarn::target
