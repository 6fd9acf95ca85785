// The end of a target: its names handed over, transfers finished, drives closed.

#include <algorithm>

#include "common/base/node_file.h"
#include "common/base/pause.h"
#include "common/base/run_blocking.h"
#include "common/cluster/state/cluster_end.h"
#include "common/obs/log.h"
#include "target/drives/empty_drives.h"
#include "target/process/target.h"

namespace tarn::target {
namespace {

constexpr auto kMainIdleLook = std::chrono::milliseconds(10);
constexpr auto kHungMost = std::chrono::seconds(5);
constexpr double kHungLeast = 1;  // seconds
constexpr auto kNoteMost = std::chrono::seconds(30);
constexpr auto kNoteEvery = std::chrono::milliseconds(500);

}  // namespace

/// Has proxies send clients elsewhere, or ask them to come again, before this target stops
/// listening.
Task<void> Target::give_notice() {
  node_->leaving = true;
  node_->readiness_changed->ring();
  if (!membership_->lease().valid()) co_return;  // they do so already
  co_await pause(options_.shutdown_notice);
}

/// Releases our names as soon as no write is under way, while long readers get their rest.
void Target::hand_over(const std::future<void>& last_reader) {
  while (!owned_->idle() && last_reader.wait_for(kMainIdleLook) != std::future_status::ready) {
  }
  keeper_.close(5);  // or it would take a new lease when the old one is released
  run_blocking(vital_loop().executor(), membership_->leave());
}

void Target::stop() {
  obs::log("target").info("stopping node={}", id_);
  run_blocking(loops_.at(0).executor(), give_notice());
  const auto last_reader = std::async(std::launch::async, [this] { public_->stop(grace_.load()); });
  hand_over(last_reader);
  last_reader.wait();
  internal_->stop(std::chrono::seconds(2));
  // A call that hangs on a drive hangs for its tasks, its threads and other drives alike: one wait
  // for all.
  const auto until = std::chrono::steady_clock::now() + kHungMost;
  const auto left = [&] {
    const std::chrono::duration<double> time = until - std::chrono::steady_clock::now();
    return std::max(time.count(), kHungLeast);
  };
  tasks_.close(left());
  node_->aside.close(left());
  for (const auto& drive : store_->drives()) drive->stop(left());
  static_cast<void>(remove_node_file(options_.dir));
}

Status Target::end_with_cluster() {
  const auto state = view_->state();
  if (!cluster::target_is_to_end(*state, id_)) return {};
  if (cluster::ends_erased(state->map)) {
    if (const auto missing = store_->missing(); !missing.empty())
      return fail(Errc::unavailable, "drive {} is not there and cannot be emptied: {}",
                  missing.begin()->first, missing.begin()->second);
    std::vector<std::string> paths;
    for (const auto& drive : store_->drives()) paths.push_back(drive->path());
    TRY_OK(empty_drives(paths));
    obs::log("target").warn("drives emptied node={} drives={}", id_, paths.size());
  }
  return run_blocking(loops_.at(0).executor(), note_end());
}

/// Proxies may be away for a moment.
Task<Status> Target::note_end() {
  const auto until = std::chrono::steady_clock::now() + kNoteMost;
  while (true) {
    const Status noted = co_await cluster::note_ended(*meta_, id_);
    if (noted || std::chrono::steady_clock::now() > until) co_return noted;
    co_await pause(kNoteEvery);
  }
}

}  // namespace tarn::target
