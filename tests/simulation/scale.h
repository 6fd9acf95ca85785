#pragma once

namespace tarn::simulation {

/// Prints what changes cost in a cluster of 1,000 targets of 24 drives with 10^8 names
/// (docs/scale.md). The exit code.
int print_scale();

}  // namespace tarn::simulation
