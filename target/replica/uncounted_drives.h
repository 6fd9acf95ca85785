#pragma once

#include <cstdint>

#include "common/api/uncounted.h"
#include "target/node/node.h"

namespace tarn::target {

/// Reports what the drives of this target that are out of service keep from a count of a bucket's
/// names. `copies` as in ObjectName: on how many drives of this target each name lies. Notes in
/// `drives_away` those that went just now. Any thread.
[[nodiscard]] api::Uncounted uncounted_here(TargetNode& node, BucketId bucket, std::uint8_t copies);

}  // namespace tarn::target
