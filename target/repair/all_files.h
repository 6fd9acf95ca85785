#pragma once

#include <functional>

#include "target/node/node.h"

namespace tarn::target {

/// A file of a drive, as its index has it: of an object, or a slice (record.slice).
using FileVisitor =
    std::function<void(const cluster::BucketRecord& bucket, const io::ObjectRecord& record)>;

/// Shows `visit` every object and every slice that a drive's index has, on one of the drive's
/// threads. Some thousands at a time, between which other work has its turns. Errors: of the drive.
Task<Status> for_each_file(TargetNode& node, Drive& drive, FileVisitor visit);

}  // namespace tarn::target
