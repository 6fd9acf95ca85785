#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "target/coded/slice_messages.h"

namespace tarn::target {

/// Report of a target on a slice.
struct SliceSeen {
  SliceState state = SliceState::missing;
  /// A number of the drive that has a good one, of no other drive of the cluster: slices with the
  /// same number are lost together. 0: the holder does not report it.
  std::uint64_t drive = 0;
  /// True if the target is down, or did not answer. Not in any message.
  bool unheard = false;

  bool operator==(const SliceSeen&) const = default;
};

/// In MessagePack: [states as slice_messages.h has them, drives]. Pure.
[[nodiscard]] std::string to_body(std::span<const SliceSeen> slices);
/// invalid_argument when it is none, or too many.
[[nodiscard]] Result<std::vector<SliceSeen>> slices_seen_in(std::string_view body);

}  // namespace tarn::target
