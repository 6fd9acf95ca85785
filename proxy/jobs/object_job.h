#pragma once

#include <nlohmann/json_fwd.hpp>

#include "common/base/async.h"
#include "common/base/error.h"
#include "common/base/ids.h"
#include "proxy/core/services.h"
#include "proxy/jobs/job.h"
#include "proxy/object/assign.h"

namespace tarn::proxy {

/// Job::order of a job that deletes or copies many objects of a bucket: `value` is that of the
/// client's message (api::parse_multi_object), `to` the bucket of a copy. `synchronize`: of a copy
/// of a prefix; afterwards all objects that `to` has below it, and `bucket` has not, are deleted.
[[nodiscard]] std::string order_of_objects(const nlohmann::json& value, BucketId bucket,
                                           BucketId to, bool synchronize);
/// Its work (Jobs::Drive, docs/decisions/016): sends each name, in batches, to the target that owns
/// it. Names that could not be done are sent again, to their owner then. It waits for targets that
/// are away as long as there is progress, and for half a minute without. A copy stays idle for a
/// while before it ends, as AIStore's clients expect.
Task<Status> drive_object_job(const Services& services, Job job);

/// False if the cluster has the object, of a bucket with an upstream; true also while that is
/// unknown. object_not_found when upstream does not have it either.
Task<Result<bool>> has_to_fetch(const Services& services, const KnownBucket& bucket,
                                std::string name);
/// Deletes one object of the cluster. object_not_found, unavailable.
Task<Status> delete_object(const Services& services, const KnownBucket& bucket, std::string name);

}  // namespace tarn::proxy
