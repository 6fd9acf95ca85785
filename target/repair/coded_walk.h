#pragma once

#include <functional>
#include <string>
#include <vector>

#include "target/repair/coded_repair.h"

namespace tarn::target {

/// Names after `after`, up to and with `last`, or to the end when that is empty.
struct NameRange {
  std::string after = {};
  std::string last = {};
};

/// Shows `visit` the coded objects of a bucket that this target owns, some at a time, with what the
/// holders of their slices report now. Objects of a range come drive by drive, not by name. Errors
/// of the drives, of which those that are out of service are passed over.
Task<Status> walk_coded(TargetNode& node, cluster::BucketRecord bucket,
                        std::function<void(const std::vector<CodedObject>&)> visit,
                        NameRange range = {});

}  // namespace tarn::target
