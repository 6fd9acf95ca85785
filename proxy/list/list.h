#pragma once

#include <set>
#include <string>
#include <vector>

#include "common/api/list_merge.h"
#include "common/base/async.h"
#include "common/base/error.h"
#include "proxy/core/services.h"
#include "proxy/list/list_request.h"
#include "proxy/object/assign.h"
#include "proxy/watch/suspects.h"

namespace tarn::proxy {

/// One page of a bucket, merged from all targets that may hold its objects. Every one of them has
/// answered, and by the same map: else it is unavailable, never a short list. bucket_not_found when
/// it was destroyed meanwhile, not_found for a target that is none.
Task<Result<api::MergedPage>> list_entries(const Services& services, KnownBucket bucket,
                                           const ListRequest& request);

/// Objects that the upstream of a bucket has.
struct UpstreamCount {
  std::uint64_t objects = 0;
  std::uint64_t bytes = 0;
};
/// Counts the objects of upstream whose names begin with `prefix`: one request to upstream for
/// about 1,000 of them. Errors: unsupported for a web server, which has no list; those of upstream;
/// unavailable when no target answers, or when the target that was asked dies.
Task<Result<UpstreamCount>> count_upstream(const Services& services, KnownBucket bucket,
                                           std::string prefix);

/// Returns those targets that may hold any object and answer, when that is enough for a complete
/// list of the bucket: of a bucket with copies on n nodes, up to n - 1 of each set of owners may be
/// away. unavailable, naming one.
[[nodiscard]] Result<std::vector<const cluster::Node*>> targets_for_list(
    const cluster::ClusterState& state, const Answering& answering,
    const cluster::BucketRecord& bucket);

/// The part of a list for one target's call: common to all its calls.
[[nodiscard]] api::Query list_query(const cluster::ClusterState& state,
                                    const cluster::BucketRecord& bucket, const ListRequest& request,
                                    const std::string& after, std::size_t limit);
/// Targets that a list is asked of.
struct ListSources {
  Answering answering;           ///< `suspects`: targets that are not asked
  std::set<std::string> unable;  ///< asked targets that cannot list all that they have
};
/// Calls one target. conflict when it acts on a newer map. A target that cannot list all is noted
/// in `sources`.
Task<Result<std::string>> ask_for_list(const Services& services, const cluster::Node& target,
                                       std::string path, ListSources& sources);
/// list_entries() while names move between targets, or some of these cannot be asked
/// (list_moving.cc). conflict when a target acts on a newer map.
Task<Result<api::MergedPage>> list_while_moving(const Services& services, const KnownBucket& bucket,
                                                const ListRequest& request, ListSources& sources);

}  // namespace tarn::proxy
