#pragma once

#include <memory>
#include <vector>

#include "target/drive/drive.h"
#include "target/drives/slow_watch.h"

namespace tarn::target {

/// Marks the drives of this target that are slow (Drive::is_slow). A drive whose disk the kernel
/// does not count is never marked. For one thread.
class SlowDrives {
 public:
  /// Once a second, of all drives that the target has. Waits for no drive. Changes are logged.
  void look(const std::vector<std::shared_ptr<Drive>>& drives);

 private:
  SlowWatch watch_;
};

}  // namespace tarn::target
