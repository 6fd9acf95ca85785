#pragma once

#include <memory>
#include <set>
#include <vector>

#include "target/drive/drive.h"

namespace tarn::target {

/// Notices drives that come into service, or leave it. One that went and came back between two
/// looks has done both: it has been opened anew. For one task.
class DrivesHere {
 public:
  /// Drives came or went since the last call.
  struct Change {
    bool came = false;
    bool went = false;
  };
  /// `drives`: those of the target.
  Change look(const std::vector<std::shared_ptr<Drive>>& drives);

 private:
  std::set<std::weak_ptr<const Drive>, std::owner_less<>> here_;  // at the last call
};

}  // namespace tarn::target
