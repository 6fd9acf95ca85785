#pragma once

#include <cstdint>
#include <stop_token>
#include <string>

#include "common/api/copy_counts.h"
#include "target/node/node.h"

namespace tarn::target {

/// Progress of a pass over the names of a mirrored bucket on this target.
struct MirrorProgress {
  std::uint64_t objects = 0;  ///< looked at
  std::uint64_t changed = 0;  ///< of these, with copies that were made or taken away
  std::uint64_t bytes = 0;    ///< written
  std::uint64_t missing = 0;  ///< with fewer copies than wanted, for want of drives
  std::uint64_t unknown = 0;  ///< names that cannot be judged before a drive that is away is back
  std::uint64_t failed = 0;
  std::string first_error;
};

/// Makes for every object of `bucket` on this target as many copies as the bucket wants now. Brings
/// old ones up to date, and removes those that are too many. Several objects at a time. cancelled
/// when it was asked to stop; objects that fail are counted. `progress` must outlive it.
Task<Status> mirror_names(TargetNode& node, cluster::BucketRecord bucket, std::stop_token stop,
                          MirrorProgress& progress);

/// Counts copies, and names what is lost (`GET
/// /v1/internal/redundancy?bucket=&bmd=&lost_after=&lost_max=`): api::CountedCopies. With
/// `list=STATE&after=&list_max=` names those in that state after a name, and counts no other
/// objects.
Task<Status> count_copies(TargetNode& node, http::Request& request);
/// The target's part of make-n-copies (`POST /v1/internal/mirror`): a line on progress four times a
/// second.
Task<Status> mirror_bucket(TargetNode& node, http::Request& request);

/// Once a second: makes copies anew that readers found bad. Goes through all mirrored buckets at
/// the start, when a drive went or came, and when a write had to do with fewer copies. Runs until
/// it is cancelled.
Task<void> keep_mirrors(TargetNode& node);

}  // namespace tarn::target
