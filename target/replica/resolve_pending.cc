#include "target/replica/resolve_pending.h"

#include "common/base/event.h"
#include "common/base/pause.h"
#include "common/obs/log.h"
#include "target/drive/record_pages.h"
#include "target/replica/node_copies.h"

namespace tarn::target {
namespace {

using namespace std::chrono_literals;

constexpr auto kKeepCopiesLookEvery = 500ms;
constexpr auto kKeepCopiesTryAgainAfter = 2s;

/// Resolves what is pending on one drive. False: something could not be.
Task<Result<bool>> resolve_drive(TargetNode& node, Drive& drive,
                                 const cluster::BucketRecord& bucket) {
  RecordPages<ObjectName> pages(
      drive, bucket.id, [&](std::string_view name, const io::ObjectRecord& record, auto& names) {
        if (!pending_by(record).empty()) names.push_back(name_in(bucket, std::string(name)));
      });
  bool all = true;
  while (pages.more()) {
    CO_TRY(auto names, co_await pages.next());
    for (ObjectName& name : names) {
      const Status resolved = co_await resolve_copies(node, std::move(name));
      all = all && resolved;
    }
  }
  co_return all;
}

/// Resolves what has been pending for a while: its writer no longer works on it, or has died.
Task<void> resolve_known(TargetNode& node) {
  const auto now = std::chrono::steady_clock::now();
  const std::vector<PendingNames::Name> names =
      node.pending.due(now - kKeepCopiesTryAgainAfter, now);
  for (const PendingNames::Name& each : names) {
    const auto state = node.view.state();
    Status resolved;  // with its bucket, when that is gone
    if (const auto* bucket = state->bmd.find(each.bucket); bucket != nullptr)
      resolved = co_await resolve_copies(node, name_in(*bucket, each.object));
    if (resolved) node.pending.resolved(each);
  }
}

Task<bool> resolve_everything(TargetNode& node) {
  bool all = true;
  const auto state = node.view.state();
  for (const auto& [name, bucket] : state->bmd.buckets) {
    if (!bucket.replica_count().many()) continue;
    for (const auto& drive : node.store.drives()) {
      const auto done = co_await resolve_drive(node, *drive, bucket);
      all = all && done && *done;
    }
  }
  co_return all;
}

}  // namespace

Task<void> resolve_pending(TargetNode& node) {
  std::uint64_t done = 0;  // of the map by which they were looked through last
  auto not_before = std::chrono::steady_clock::now();
  while (true) {
    co_await pause_until(next_tick(kKeepCopiesLookEvery));
    const auto state = node.owned.state();
    const std::uint64_t version = state->map->version;
    if (version != done) node.pending.looked_through(false);
    if (!node.membership.lease().valid()) continue;
    co_await resolve_known(node);
    if (node.pending.looked_through() || state->settled < version) continue;
    if (std::chrono::steady_clock::now() < not_before) continue;
    node.pending.looked_through(true);
    const bool all = co_await resolve_everything(node);
    if (!all) node.pending.looked_through(false);
    done = version;
    not_before = std::chrono::steady_clock::now() + kKeepCopiesTryAgainAfter;
  }
}

}  // namespace tarn::target
