#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "target/drive.h"
#include "target/slow_watch.h"

namespace tarn::target {

/// Which drives of this target are slow. A drive whose disk the kernel does not count is never
/// said to be. Thread-safe.
class SlowDrives {
 public:
  /// Once a second, of all drives that the target has. Waits for no drive. What changes is logged.
  void look(const std::vector<std::shared_ptr<Drive>>& drives);
  [[nodiscard]] bool is_slow(const std::string& path) const;

 private:
  mutable std::mutex mutex_;  // guards watch_
  SlowWatch watch_;
};

}  // namespace tarn::target
