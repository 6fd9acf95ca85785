// A slice that was lost with a drive is made again, maybe on another drive of the same target. When
// the first one is back it lies there twice, and takes room for nothing.

#include "target/repair/double_slices.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "common/api/coding_props.h"
#include "common/base/event.h"
#include "common/base/pause.h"
#include "common/obs/log.h"
#include "target/coded/slice_holder.h"
#include "target/drive/slice_pages.h"
#include "target/node/rebuild_pace.h"
#include "target/repair/drives_here.h"

namespace tarn::target {
namespace {

using namespace std::chrono_literals;
using SteadyClock = std::chrono::steady_clock;

constexpr auto kDoubleSlicesLookEvery = 500ms;
constexpr auto kDoubleSlicesEveryDay = 24h;
constexpr std::chrono::seconds kDoubleSlicesAgainFirst = 2s;
constexpr std::chrono::seconds kDoubleSlicesAgainMost = 60s;
constexpr PageSize kDoubleSlicesPage{.items = 1000};

Task<Status> double_slices_fill(SliceRun& run, SlicePages<SliceKey>& pages) {
  CO_TRY(const auto keys, co_await pages.next());
  run.keys.assign(keys.begin(), keys.end());
  run.more = pages.more();
  co_return Status();
}

Task<Status> keep_one(TargetNode& node, const cluster::BucketRecord& bucket, SliceKey key,
                      DoubleSlices& counts) {
  const auto toll = [&node](std::uint64_t bytes) -> Task<Status> {
    return pass_read(node, nullptr, bytes);
  };
  ++counts.found;
  const auto removed = co_await node.store.slices().keep_one(name_in(bucket, key.name), key, toll);
  if (!removed) {
    ++counts.left;
    note_if_bad(node, key, removed.error());
    obs::log("repair").warn("slice stays on several drives object={} slice={} err={}", key.name,
                            key.index, removed.error().message);
    co_return Status();
  }
  // The slice that is left was read through.
  if (*removed > 0) node.bad_slices.erase(key);
  counts.removed += *removed;
  obs::log("repair").debug("slice left on one drive object={} slice={} removed={}", key.name,
                           key.index, *removed);
  co_return Status();
}

Task<Status> drop_in(TargetNode& node, const cluster::BucketRecord& bucket, DoubleSlices& counts) {
  const auto take = [](const SliceKey& key, const io::ObjectRecord&, auto& to) {
    to.push_back(key);
  };
  const auto drives = node.store.drives();  // they stay while they are walked over
  std::vector<SlicePages<SliceKey>> pages;
  for (const auto& drive : drives)
    if (drive->in_service()) pages.emplace_back(*drive, bucket.id, take, kDoubleSlicesPage);
  std::vector<SliceRun> runs(pages.size());
  const auto ended = [](const SliceRun& run) { return run.keys.empty() && !run.more; };
  while (!std::all_of(runs.begin(), runs.end(), ended)) {
    for (std::size_t i = 0; i < runs.size(); ++i)
      if (runs[i].keys.empty() && runs[i].more)
        CO_TRY_OK(co_await double_slices_fill(runs[i], pages[i]));
    for (SliceKey& key : take_doubles(runs))
      CO_TRY_OK(co_await keep_one(node, bucket, std::move(key), counts));
  }
  co_return Status();
}

/// True if nothing is left to be done.
Task<bool> look(TargetNode& node) {
  const auto counts = co_await drop_doubles(node);
  if (!counts) {
    obs::log("repair").warn("slices on several drives not looked for err={}",
                            counts.error().message);
    co_return false;
  }
  if (counts->found > 0)
    obs::log("repair").info("slices on several drives found={} removed={} left={}", counts->found,
                            counts->removed, counts->left);
  co_return counts->left == 0;
}

}  // namespace

std::vector<SliceKey> take_doubles(std::span<SliceRun> runs) {
  std::vector<SliceKey> out;
  while (true) {
    const SliceKey* least = nullptr;
    for (const SliceRun& run : runs) {
      if (run.keys.empty() && run.more) return out;
      if (run.keys.empty()) continue;
      if (least == nullptr || run.keys.front() < *least) least = &run.keys.front();
    }
    if (least == nullptr) return out;
    const SliceKey key = *least;
    std::size_t times = 0;
    for (SliceRun& run : runs) {
      if (run.keys.empty() || run.keys.front() != key) continue;
      run.keys.pop_front();
      ++times;
    }
    if (times > 1) out.push_back(key);
  }
}

Task<Result<DoubleSlices>> drop_doubles(TargetNode& node) {
  DoubleSlices counts;
  const auto state = node.view.state();
  for (const auto& [id, bucket] : state->bmd.buckets)
    if (api::was_ever_coded(bucket.props)) CO_TRY_OK(co_await drop_in(node, bucket, counts));
  co_return counts;
}

Task<void> keep_slices_single(TargetNode& node) {
  DrivesHere here;
  bool came = false;
  auto due = SteadyClock::now();
  std::chrono::seconds again = kDoubleSlicesAgainFirst;
  while (true) {
    co_await pause_until(next_tick(kDoubleSlicesLookEvery));
    if (here.look(node.store.drives()).came) came = true;
    // Before that the buckets are not known, or are those of long ago.
    if (!node.membership.lease().valid()) continue;
    if (!came && SteadyClock::now() < due) continue;
    if (came) again = kDoubleSlicesAgainFirst;
    came = false;
    const bool all = co_await look(node);
    due = SteadyClock::now() + (all ? std::chrono::seconds(kDoubleSlicesEveryDay) : again);
    again = all ? kDoubleSlicesAgainFirst : std::min(again * 2, kDoubleSlicesAgainMost);
  }
}

}  // namespace tarn::target
