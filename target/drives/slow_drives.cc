#include "target/drives/slow_drives.h"

#include <map>
#include <string>

#include "common/base/fail_point.h"
#include "common/obs/log.h"
#include "common/obs/proc_files.h"

namespace tarn::target {
namespace {

/// Error if a test marks the drive as slow.
Status said_to_be_slow(const Drive& drive) {
  FAIL_POINT_OF("drive.slow.", drive.path());
  return {};
}

}  // namespace

void SlowDrives::look(const std::vector<std::shared_ptr<Drive>>& drives) {
  const auto disks = obs::read_disks();
  std::map<std::string, SlowWatch::Seen> seen;
  for (const auto& drive : drives) {
    const auto disk = disks.find(drive->mount().disk);
    if (disk == disks.end()) continue;
    const obs::DiskCounters& its = disk->second;
    seen[drive->path()] = {.kind = drive->kind(),
                           .requests = its.reads + its.writes,
                           .bytes = its.read_bytes + its.written_bytes,
                           .busy_ms = its.busy_ms};
  }
  for (const SlowWatch::Change& change : watch_.look(seen)) {
    if (change.slow)
      obs::log("drive").warn("drive is slow drive={} ms={:.2f} usual={:.2f}", change.path,
                             change.ms, change.usual);
    else
      obs::log("drive").info("drive is no longer slow drive={} ms={:.2f} usual={:.2f}", change.path,
                             change.ms, change.usual);
  }
  for (const auto& drive : drives)
    drive->set_slow(watch_.slow().contains(drive->path()) || !said_to_be_slow(*drive));
}

}  // namespace tarn::target
