#pragma once

#include <cstdint>
#include <vector>

namespace tarn::target {

/// How many drives, or nodes, whichever they are, may go at once when `each` of them has so many
/// pieces of an object, and `left` pieces may go: the worst are those that have the most. Pure.
[[nodiscard]] std::uint64_t losses_borne(std::vector<std::uint64_t> each, std::uint64_t left);

}  // namespace tarn::target
