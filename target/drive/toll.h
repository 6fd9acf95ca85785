#pragma once

#include <cstdint>
#include <functional>

#include "common/base/async.h"
#include "common/base/error.h"

namespace tarn::target {

/// Asked before so many bytes are read or written for work that clients do not wait for: returns
/// when they may be. Its error ends the work. Empty: nothing is asked.
using Toll = std::function<Task<Status>(std::uint64_t bytes)>;

}  // namespace tarn::target
