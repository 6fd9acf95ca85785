#pragma once

#include <cstdint>

#include "common/base/async.h"
#include "target/object_name.h"

namespace tarn::target {

/// Makes room on drives that are full, by evicting what can be fetched again (docs/decisions/022).
/// Thread-safe.
class RoomMaker {
 public:
  virtual ~RoomMaker() = default;
  /// True when a drive that takes new files has room for `bytes` of `name`, after a wait of some
  /// seconds at most. False when nothing that may be evicted makes it. The caller must hold no
  /// lock of another name.
  virtual Task<bool> make_room(ObjectName name, std::uint64_t bytes) = 0;
};

}  // namespace tarn::target
