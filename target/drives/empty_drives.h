#pragma once

#include <string>
#include <vector>

#include "common/base/error.h"

namespace tarn::target {

/// Removes all that Tarn has on drives, with their identities, so that they are as new. They must
/// be closed: nothing reads or writes there now. The identity of a drive goes last, so a crash in
/// between leaves a drive of which the same can be asked again. Durable when it succeeds. Blocking.
/// io, naming the drive.
Status empty_drives(const std::vector<std::string>& drives);

/// True if one of these drives belongs to a target.
[[nodiscard]] bool any_has_identity(const std::vector<std::string>& drives);

}  // namespace tarn::target
