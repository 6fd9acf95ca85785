// A slice that was lost with a drive is made again, maybe on another drive of the same target. When
// the first one is back it lies there twice, and takes room for nothing.

#include "target/repair/double_pieces.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include <boost/asio/steady_timer.hpp>

#include "common/api/coding_props.h"
#include "common/base/event.h"
#include "common/obs/log.h"
#include "target/coded/piece_home.h"
#include "target/node/rebuild_pace.h"
#include "target/repair/drives_here.h"

namespace tarn::target {
namespace {

using namespace std::chrono_literals;
using SteadyClock = std::chrono::steady_clock;

constexpr auto kDoublePiecesLookEvery = 500ms;
constexpr auto kDoublePiecesEveryDay = 24h;
constexpr std::chrono::seconds kDoublePiecesAgainFirst = 2s;
constexpr std::chrono::seconds kDoublePiecesAgainMost = 60s;
constexpr std::size_t kKeysAtOnce = 1000;

/// A drive, and how far its pieces have been looked at.
struct DoublePiecesWalked {
  std::shared_ptr<Drive> drive;
  std::optional<PieceKey> last;
};

Task<Status> double_pieces_fill(PieceRun& run, DoublePiecesWalked& walked, BucketId bucket) {
  const auto visit = [&](const PieceKey& key, const io::ObjectRecord&) {
    run.keys.push_back(key);
    return run.keys.size() < kKeysAtOnce;
  };
  CO_TRY_OK(co_await walked.drive->walk_pieces(bucket, walked.last, visit));
  run.more = run.keys.size() == kKeysAtOnce;
  if (!run.keys.empty()) walked.last = run.keys.back();
  co_return Status();
}

Task<Status> keep_one(TargetNode& node, const cluster::BucketRecord& bucket, PieceKey key,
                      DoublePieces& counts) {
  const auto toll = [&node](std::uint64_t bytes) -> Task<Status> {
    return pass_read(node, nullptr, bytes);
  };
  ++counts.found;
  const auto removed = co_await node.store.pieces().keep_one(name_in(bucket, key.name), key, toll);
  if (!removed) {
    ++counts.left;
    note_if_bad(node, key, removed.error());
    obs::log("repair").warn("piece stays on several drives object={} piece={} err={}", key.name,
                            key.index, removed.error().message);
    co_return Status();
  }
  // The piece that is left was read through.
  if (*removed > 0) node.bad_pieces.erase(key);
  counts.removed += *removed;
  obs::log("repair").debug("piece left on one drive object={} piece={} removed={}", key.name,
                           key.index, *removed);
  co_return Status();
}

Task<Status> drop_in(TargetNode& node, const cluster::BucketRecord& bucket, DoublePieces& counts) {
  std::vector<DoublePiecesWalked> drives;
  for (const auto& drive : node.store.drives())
    if (drive->in_service()) drives.push_back({drive, std::nullopt});
  std::vector<PieceRun> runs(drives.size());
  const auto ended = [](const PieceRun& run) { return run.keys.empty() && !run.more; };
  while (!std::all_of(runs.begin(), runs.end(), ended)) {
    for (std::size_t i = 0; i < runs.size(); ++i)
      if (runs[i].keys.empty() && runs[i].more)
        CO_TRY_OK(co_await double_pieces_fill(runs[i], drives[i], bucket.id));
    for (PieceKey& key : take_doubles(runs))
      CO_TRY_OK(co_await keep_one(node, bucket, std::move(key), counts));
  }
  co_return Status();
}

/// True if nothing is left to be done.
Task<bool> look(TargetNode& node) {
  const auto counts = co_await drop_doubles(node);
  if (!counts) {
    obs::log("repair").warn("pieces on several drives not looked for err={}",
                            counts.error().message);
    co_return false;
  }
  if (counts->found > 0)
    obs::log("repair").info("pieces on several drives found={} removed={} left={}", counts->found,
                            counts->removed, counts->left);
  co_return counts->left == 0;
}

}  // namespace

std::vector<PieceKey> take_doubles(std::span<PieceRun> runs) {
  std::vector<PieceKey> out;
  while (true) {
    const PieceKey* least = nullptr;
    for (const PieceRun& run : runs) {
      if (run.keys.empty() && run.more) return out;
      if (run.keys.empty()) continue;
      if (least == nullptr || run.keys.front() < *least) least = &run.keys.front();
    }
    if (least == nullptr) return out;
    const PieceKey key = *least;
    std::size_t times = 0;
    for (PieceRun& run : runs) {
      if (run.keys.empty() || run.keys.front() != key) continue;
      run.keys.pop_front();
      ++times;
    }
    if (times > 1) out.push_back(key);
  }
}

Task<Result<DoublePieces>> drop_doubles(TargetNode& node) {
  DoublePieces counts;
  const auto state = node.view.state();
  for (const auto& [id, bucket] : state->bmd.buckets)
    if (api::was_ever_coded(bucket.props)) CO_TRY_OK(co_await drop_in(node, bucket, counts));
  co_return counts;
}

Task<void> keep_pieces_single(TargetNode& node) {
  asio::steady_timer timer(co_await asio::this_coro::executor);
  DrivesHere here;
  bool came = false;
  auto due = SteadyClock::now();
  std::chrono::seconds again = kDoublePiecesAgainFirst;
  while (true) {
    timer.expires_at(next_tick(kDoublePiecesLookEvery));
    co_await timer.async_wait(asio::use_awaitable);
    if (here.look(node.store.drives()).came) came = true;
    // Before that the buckets are not known, or are those of long ago.
    if (!node.membership.lease().valid()) continue;
    if (!came && SteadyClock::now() < due) continue;
    if (came) again = kDoublePiecesAgainFirst;
    came = false;
    const bool all = co_await look(node);
    due = SteadyClock::now() + (all ? std::chrono::seconds(kDoublePiecesEveryDay) : again);
    again = all ? kDoublePiecesAgainFirst : std::min(again * 2, kDoublePiecesAgainMost);
  }
}

}  // namespace tarn::target
