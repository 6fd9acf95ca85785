#pragma once

#include <string>
#include <utility>

#include "common/base/error.h"
#include "common/base/unique_fd.h"

namespace tarn::io {

/// Notices the end of a mounted file system: the moment in which the kernel has dropped all its
/// memory of it. By then it is mounted nowhere, and no file of it is open. It does not keep the
/// file system from being unmounted (inotify(7), IN_UNMOUNT). For one thread at a time.
class MountWatch {
 public:
  /// Watches the file system that `path` lies on. io when the kernel does not take the watch.
  [[nodiscard]] static Result<MountWatch> of(const std::string& path);
  /// True if it has ended since. Never waits.
  [[nodiscard]] bool ended();

 private:
  explicit MountWatch(UniqueFd events) : events_(std::move(events)) {}
  UniqueFd events_;
  bool ended_ = false;
};

}  // namespace tarn::io
