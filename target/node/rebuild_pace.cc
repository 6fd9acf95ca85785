#include "target/node/rebuild_pace.h"

#include <algorithm>

#include "common/base/fail_point.h"
#include "common/base/pause.h"

namespace tarn::target {
namespace {

using namespace std::chrono_literals;

constexpr auto kMost = 1s;

bool clients_wait(const TargetNode& node, const Drive* drive) {
  if (node.clients.load() == 0) return false;
  if (drive != nullptr) return drive->turns().clients_wait();
  const auto drives = node.store.drives();
  return std::any_of(drives.begin(), drives.end(),
                     [](const auto& each) { return each->turns().clients_wait(); });
}

}  // namespace

MoveLimits& rebuild_limits(TargetNode& node) {
  MoveLimits& limits = node.moves.limits;
  const auto drives = node.store.drives();
  const auto in_service = std::count_if(drives.begin(), drives.end(),
                                        [](const auto& drive) { return drive->in_service(); });
  limits.rebuild_min.set(limits.rebuild_min_of_drive * static_cast<std::uint64_t>(in_service));
  return limits;
}

RebuildWait rebuild_wait(TargetNode& node, std::uint64_t bytes, const Drive* drive) {
  return rebuild_wait(rebuild_limits(node), bytes, node.clock.boot_time(),
                      clients_wait(node, drive));
}

Task<Status> pass_read(TargetNode& node, const Drive* drive, std::uint64_t bytes) {
  const BootTime until = node.clock.boot_time() + kMost;
  while (SAFETY("safety.rebuild_pace")) {
    const auto wait = rebuild_wait(node, bytes, drive);
    const std::chrono::nanoseconds left = until - node.clock.boot_time();
    if (wait.by == HeldBy::nothing || left.count() <= 0) break;
    node.rebuild.held(wait.by, node.clock);
    co_await pause(std::min(wait.time, left));
  }
  co_return Status();
}

}  // namespace tarn::target
