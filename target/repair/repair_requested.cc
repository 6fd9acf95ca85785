#include "target/repair/repair_requested.h"

#include "common/base/event.h"
#include "common/base/gather.h"
#include "common/base/pause.h"
#include "target/coded/slice_holder.h"
#include "target/repair/coded_repair.h"

namespace tarn::target {
namespace {

using namespace std::chrono_literals;
using SteadyClock = std::chrono::steady_clock;
using Names = std::set<RepairRequests::Name>;

constexpr auto kRepairRequestedLookEvery = 500ms;
constexpr std::chrono::seconds kRepairRequestedAgainFirst{2};
constexpr std::chrono::seconds kRepairRequestedAgainMost{60};
constexpr std::size_t kRepairRequestedAtOnce = 4;

/// False: something can only be done later.
Task<bool> repair_one(TargetNode& node, RepairRequests::Name request) {
  const auto state = node.view.state();
  const auto* bucket = state->bmd.find(request.first);
  if (bucket == nullptr) co_return true;
  ObjectName name = name_in(*bucket, request.second);
  const auto digest = cluster::placement_digest(name.uname);
  if (cluster::writer_of(*state->ownership->map, digest) != node.id) co_return true;
  co_return co_await repair_object(node, std::move(name));
}

Task<Status> repair_or_leave(TargetNode& node, RepairRequests::Name request, Names& left) {
  if (!co_await repair_one(node, request)) left.insert(std::move(request));
  co_return Status();
}

/// Repairs the objects. Returns those that could not be repaired.
Task<Names> repair_all(TargetNode& node, Names requests) {
  Names left;
  const auto repair_next = [&](std::size_t /*i*/) {
    return repair_or_leave(node, std::move(requests.extract(requests.begin()).value()), left);
  };
  (void)co_await gather_at_most(kRepairRequestedAtOnce, requests.size(), repair_next);
  co_return left;
}

}  // namespace

Task<void> repair_requested(TargetNode& node) {
  Names left;  // to be tried again
  auto due = SteadyClock::now();
  std::chrono::seconds again = kRepairRequestedAgainFirst;
  while (true) {
    co_await pause_until(next_tick(kRepairRequestedLookEvery));
    co_await tell_of_bad_slices(node);
    if (!node.membership.lease().valid()) continue;
    Names requests = node.repair_requests.take();
    if (SteadyClock::now() >= due) requests.merge(std::exchange(left, {}));
    if (requests.empty()) continue;
    left.merge(co_await repair_all(node, std::move(requests)));
    again =
        left.empty() ? kRepairRequestedAgainFirst : std::min(again * 2, kRepairRequestedAgainMost);
    if (!left.empty() && SteadyClock::now() >= due) due = SteadyClock::now() + again;
    // More are found by the next look through everything.
    while (left.size() > RepairRequests::kMax) left.erase(left.begin());
  }
}

}  // namespace tarn::target
