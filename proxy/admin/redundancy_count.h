#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "common/base/async.h"
#include "common/base/error.h"
#include "proxy/admin/redundancy_tally.h"
#include "proxy/core/services.h"

namespace tarn::proxy {

/// Options of a count of a bucket.
struct CountOrder {
  std::string lost_after = {};  ///< only lost objects after this name are named
  std::size_t lost_max = 0;     ///< so many of them, at most
  /// After each page of names it waits so many times as long as that took: for counts that no
  /// client waits for, since holders open the file of each slice.
  unsigned rests = 0;
  /// Objects in this state after `list_after` are named, so many at most. Then the count begins
  /// after that name and ends with the last that is named, and its numbers are of no use.
  std::optional<api::ObjectState> list = {};
  std::string list_after = {};
  std::size_t list_max = 0;
};

/// Counts the objects of a bucket by their redundancy now. Goes page by page: at most a page of
/// each target is in memory. Targets that do not answer are left out, and named. The bucket as it
/// is called in `state`, or in a newer one. Errors: bucket_not_found when it is gone; unavailable
/// when the map changes all the time; cancelled.
Task<Result<Redundancy>> count_redundancy(const Services& services,
                                          std::shared_ptr<const cluster::ClusterState> state,
                                          BucketId bucket, CountOrder order);

/// Objects that are readable now and would not be without some targets.
struct Unreadable {
  std::uint64_t objects = 0;
  std::string first = {};  ///< the first of their names in byte order; empty without objects
};

/// Counts those of a bucket that has, or had, copies or slices on nodes, without the targets
/// `stops` (ids), as count_redundancy() counts. Objects written meanwhile do not count. Errors as
/// there; unsupported when a target runs a version without such counts.
Task<Result<Unreadable>> count_unreadable(const Services& services,
                                          std::shared_ptr<const cluster::ClusterState> state,
                                          BucketId bucket, std::set<std::string> stops);

}  // namespace tarn::proxy
