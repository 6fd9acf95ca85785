#include "target/replica/uncounted_drives.h"

#include <algorithm>
#include <set>
#include <string>

namespace tarn::target {
namespace {

/// True if a drive was opened of which files were gone, or could not be read.
bool lost_at_opening(const RecoveryReport& report) {
  return report.lost_records + report.torn_files + report.unreadable_files > 0;
}

}  // namespace

api::Uncounted uncounted_here(TargetNode& node, BucketId bucket, std::uint8_t copies) {
  api::Uncounted out;
  std::set<std::string> away;
  for (const auto& [path, why] : node.store.missing()) away.insert(path);
  for (const auto& drive : node.store.drives()) {
    if (!drive->in_service()) away.insert(drive->path());
    out.unseen = out.unseen || lost_at_opening(drive->recovery());
  }
  out.drives = away.size();
  const BootTime now = node.clock.boot_time();
  node.drives_away.learn(away, now);
  out.expected = node.drives_away.any_expected(now);
  // Each name lies on one drive in service, if all lie on more drives here than are away.
  const bool covered = away.size() < node.store.mirror().surely(bucket, copies);
  out.unseen = out.unseen || (!away.empty() && !covered);
  return out;
}

}  // namespace tarn::target
