#pragma once

#include <cstdint>

namespace tarn::simulation {

/// Prints what changes cost in a cluster of 1,000 targets of 24 drives with 10^8 names
/// (docs/scale.md), of which so many are sampled. The exit code: 0 when no name moved needlessly,
/// and each change moved what is due but for four standard deviations of the sample.
int print_scale(std::uint64_t sampled);

}  // namespace tarn::simulation
