#pragma once

#include <cstdint>

#include "target/drive/drive.h"

namespace tarn::target {

/// True if a drive with this space takes `length` more bytes when at most `used_percent` of it may
/// be used. Pure.
[[nodiscard]] bool has_room(const io::Space& now, const SpaceLimits& limits, std::uint64_t length,
                            double used_percent);
/// Bytes that data never touches.
[[nodiscard]] double reserve_of(const io::Space& now, const SpaceLimits& limits);

}  // namespace tarn::target
