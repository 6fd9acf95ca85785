#pragma once

#include <cstdint>
#include <optional>
#include <stop_token>
#include <string>

#include "common/api/bucket_copy.h"
#include "target/commit/peer_copy.h"

namespace tarn::target {

/// Finds where an object of a bucket lives, whatever the bucket is called now. bucket_not_found
/// when it was destroyed, else as find_destination().
Task<Result<Destination>> find_in_bucket(TargetNode& node, BucketId bucket, std::string object);
/// The same for a name of ours; unavailable when it is another target's, or we have no lease.
Task<Result<ObjectRequest>> find_own(TargetNode& node, BucketId bucket, std::string object);

/// One object of a copy of many, where it went.
struct CopiedObject {
  std::uint64_t bytes = 0;
  std::string owner;  ///< id of the target that has the copy
};
/// Copies the newest version of `object`, whose owner we are, from one bucket to another, under the
/// name that `how` has for it; nothing when there is no such object. With `again` it is not copied
/// when it is there already. Errors as copy_to(), invalid_argument for a new name that cannot be. A
/// name that has not come to its owner yet is brought here.
Task<Result<std::optional<CopiedObject>>> copy_named(TargetNode& node, const std::string& job,
                                                     BucketId from, BucketId to, std::string object,
                                                     const api::BucketCopy& how, bool again,
                                                     std::stop_token stop);

}  // namespace tarn::target
