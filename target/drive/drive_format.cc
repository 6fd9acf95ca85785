// Format of the drive in drive.json. A release that does not know coded objects and slices must not
// take them for damage. So the format is raised before there is the first of either.

#include <algorithm>

#include "common/base/fail_point.h"
#include "common/obs/log.h"
#include "target/drive/drive.h"
#include "target/drive/drive_identity.h"

namespace tarn::target {

Status Drive::raise_format() {
  if (format_raised_.load(std::memory_order_acquire)) return {};
  const MutexLock lock(identity_mutex_);
  TRY(auto identity, read_identity(*files_));
  if (identity && identity->format < kSlicesFormat) {
    identity->format = kSlicesFormat;
    TRY_OK(write_identity(*files_, *identity));
    obs::log("drive").info("format raised drive={} format={}", options_.path, kSlicesFormat);
  }
  FAIL_POINT("drive.format_raised");
  format_raised_.store(true, std::memory_order_release);
  return {};
}

Status Drive::keep_identity(const DriveIdentity& identity) {
  const MutexLock lock(identity_mutex_);
  return rewrite_identity(*files_, identity);
}

}  // namespace tarn::target
