#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/api/bucket_props.h"
#include "common/base/async.h"
#include "common/base/error.h"
#include "proxy/core/services.h"
#include "proxy/object/assign.h"
#include "proxy/watch/suspects.h"

namespace tarn::proxy {

/// Asks a target to find the bucket upstream: targets alone have the credentials. `props`
/// with the server that was asked, so that all targets ask that one. Errors are the target's:
/// bucket_not_found, forbidden for a server that the operator did not list or that refuses,
/// unavailable when it or all targets do not answer.
/// With Server::configured only when targets were started with a server or credentials for it.
enum class Server : std::uint8_t { any, configured };
Task<Result<api::BucketProps>> check_upstream_bucket(const Services& services, api::Bucket name,
                                                     api::BucketProps props,
                                                     Server server = Server::any);

/// Asks a target for the buckets of the accounts that targets were started with: of one provider,
/// or of all with "". bucket_not_found for a provider for which they were started with none;
/// otherwise as check_upstream_bucket().
Task<Result<std::vector<api::Bucket>>> list_account_buckets(const Services& services,
                                                            std::string provider);

/// The properties of a new bucket with an upstream: the cluster's defaults without copies and
/// slices, which are meant for objects that are nowhere else, and with eviction.
[[nodiscard]] Result<cluster::BucketProps> upstream_defaults(const cluster::ClusterConfig& config);

/// Looks for a bucket that the cluster does not know where targets were started to look: the
/// properties that it would have here. None if it is not there, or no target was asked.
Task<Result<std::optional<api::BucketProps>>> look_upstream(const Services& services,
                                                            api::Bucket name);
/// As find_bucket(). A bucket that the cluster does not know, and the cloud of its provider has,
/// becomes known to it, as in AIStore: of the server and with the credentials that targets were
/// started with. If they were started with none, no server is asked, and it is bucket_not_found.
Task<Result<KnownBucket>> find_or_adopt_bucket(const Services& services, api::Bucket name);

/// The target that is asked about upstream next: any one that answers. unavailable without one.
[[nodiscard]] Result<const cluster::Node*> target_for_upstream(const cluster::ClusterState& state,
                                                               const Answering& answering);

/// The refusal of a change of an object of a web server's bucket.
[[nodiscard]] Error no_write_through(const api::Bucket& bucket);

}  // namespace tarn::proxy
