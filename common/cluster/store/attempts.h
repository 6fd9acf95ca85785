#pragma once

#include "common/base/async.h"

namespace tarn::cluster {

/// The attempts of a change that reads keys and commits on condition that they are as they were
/// read: `for (Attempts attempts; co_await attempts.next();)`. Not thread-safe.
class Attempts {
 public:
  static constexpr int kMost = 50;

  /// True if another attempt is to be made. Waits for 1 to 20 ms before all but the first one, so
  /// that nodes which collided do not collide again.
  Task<bool> next();

 private:
  int made_ = 0;
};

}  // namespace tarn::cluster
