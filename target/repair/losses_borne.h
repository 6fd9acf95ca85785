#pragma once

#include <cstdint>
#include <vector>

namespace tarn::target {

/// Returns how many drives, or nodes, whichever they are, may be lost at once. `each`: the slices
/// of an object on each of them; `left`: slices that may be lost. The worst losses are those with
/// the most slices. Pure.
[[nodiscard]] std::uint64_t losses_borne(std::vector<std::uint64_t> each, std::uint64_t left);

}  // namespace tarn::target
