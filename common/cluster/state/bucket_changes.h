#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "common/api/bucket.h"
#include "common/base/async.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/ids.h"
#include "common/cluster/state/cluster_view.h"
#include "common/cluster/state/state.h"
#include "common/cluster/store/meta_store.h"

// Changes of buckets, each one transaction that compares and bumps the counter of bucket changes,
// and brings the view up to date. Errors: bucket_exists, bucket_not_found, unavailable. An unknown
// outcome is resolved by reading again, within `unavailable` when even that fails. Any loop.

namespace tarn::cluster {

/// Waits until every live node has acknowledged bucket metadata `bmd_version` or lost its lease.
/// timeout after `limit`, naming a node; unavailable when the store cannot be read.
Task<Status> wait_acknowledged(MetaStore& store, ClusterView& view, std::uint64_t bmd_version,
                               std::chrono::milliseconds limit);

/// Adds the keys of a bucket to a transaction. `made_by` is random: it identifies the transaction
/// when an outcome is unknown.
void put_bucket(const BucketRecord& bucket, const std::string& made_by, Transaction& out);

/// Creates a bucket and returns it. Errors: bucket_exists, and invalid_argument or unsupported for
/// a name or properties that this cluster cannot serve.
Task<Result<BucketRecord>> create_bucket(MetaStore& store, ClusterView& view, api::Bucket name,
                                         BucketProps props, Clock& clock);
/// The state that a destroyed bucket leaves.
enum class Afterwards : std::uint8_t {
  gone,  ///< no bucket
  empty  ///< a new bucket with its name and its properties
};
/// Destroys a bucket in two steps, each of which every live node has acknowledged before the next:
/// it is marked, and nodes that know the mark refuse requests (BucketRecord::ending); then it is
/// gone. Without the first step, a node that is late would show objects that other nodes deny.
/// timeout when a node has not acknowledged within `limit`, twice that in all: the bucket is marked
/// then, or gone, and the call may be repeated. bucket_not_found when there is none. The first call
/// for a bucket decides on `afterwards`.
Task<Status> destroy_bucket(MetaStore& store, ClusterView& view, api::Bucket name,
                            std::chrono::milliseconds limit,
                            Afterwards afterwards = Afterwards::gone);
/// Takes the second step of destroy_bucket() for bucket `id`, marked by bucket metadata
/// `bmd_version`; also when the caller of the first step is gone. Ok when it is gone already.
/// Another bucket that has its name by now is left alone: a caller that saw only the mark may be
/// late. Errors as destroy_bucket().
Task<Status> finish_destroy(MetaStore& store, ClusterView& view, api::Bucket name, BucketId id,
                            std::uint64_t bmd_version, std::chrono::milliseconds limit);
/// Returns the error for a request to a bucket that is marked.
[[nodiscard]] Error being_destroyed(const api::Bucket& name);
/// Renames bucket `from` to `to`, in one transaction: its id, its objects and their places stay
/// (docs/decisions/009). bucket_exists when `to` exists, unless it is `from` renamed before. With
/// `given_by`, an earlier result of name_given_by() for `from`: bucket_not_found when that differs
/// now. Returns the bucket as it is then.
Task<Result<BucketRecord>> rename_bucket(MetaStore& store, ClusterView& view, api::Bucket from,
                                         api::Bucket to,
                                         std::optional<std::string> given_by = std::nullopt);
/// Returns the random id of the change that made a bucket have this name: it differs after a rename
/// away and back. Empty when no bucket has it. unavailable when the store cannot be read.
Task<Result<std::string>> name_given_by(MetaStore& store, api::Bucket name);
/// Sets the properties that `change` makes of those of the bucket; nothing is written when they are
/// equal. `change` may be asked several times. Returns the bucket as it is then. Errors of `change`
/// are passed on. Another number of copies on nodes comes with a new map
/// (BucketRecord::replica_count()); unsupported for a bucket that has had copies on drives.
using PropsChange = std::function<Result<BucketProps>(const BucketProps&)>;
Task<Result<BucketRecord>> change_bucket(MetaStore& store, ClusterView& view, api::Bucket name,
                                         PropsChange change);

/// Makes the state of a new cluster: uuid, empty map, the default bucket (none when its name is
/// empty). Does nothing on one that exists. Returns the cluster's uuid. `secret_check`, if not
/// empty, is left with a new cluster (check_secret()). unsupported when another store has the
/// cluster's state now.
Task<Result<std::string>> bootstrap(MetaStore& store, std::string default_bucket, Clock& clock,
                                    std::string secret_check = "");

}  // namespace tarn::cluster
