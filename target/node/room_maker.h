#pragma once

#include <chrono>
#include <cstdint>

#include "common/base/async.h"
#include "target/store/object_name.h"

namespace tarn::target {

/// Makes room on drives that are full, by evicting what can be fetched again (docs/decisions/022).
/// Thread-safe.
class RoomMaker {
 public:
  virtual ~RoomMaker() = default;
  /// Waits until a drive that takes new files has room for `bytes` of `name`, and returns true.
  /// False when nothing that may be evicted makes it, or not before `until`. Names whose lock is
  /// held are not evicted, so the caller may hold one.
  virtual Task<bool> make_room(ObjectName name, std::uint64_t bytes,
                               std::chrono::steady_clock::time_point until) = 0;
};

}  // namespace tarn::target
