#pragma once

#include "common/base/async.h"
#include "common/base/error.h"
#include "common/http/router.h"
#include "proxy/core/action.h"
#include "proxy/core/services.h"
#include "proxy/jobs/job.h"
#include "proxy/object/assign.h"

namespace tarn::proxy {

/// POST /v1/buckets/B?bck_to= {"action":"copy-bck"}: makes the destination when it is not there,
/// answers with the id of a job, and has every target copy its own objects
/// (target/job/bucket_copy.cc). 409 while such a copy runs.
Task<Status> copy_bucket(const Services& services, http::Request& request, api::Bucket from,
                         Action action);

/// Begins a job that makes as many copies of every object of the bucket as its properties demand
/// now, on each target (target/job/bucket_mirror.cc). Returns the id of the job. Targets go on by
/// themselves when it ends early.
Task<Result<std::string>> start_copies_job(const Services& services, api::Bucket name);

/// POST /v1/buckets/B?bck_to= {"action":"move-bck"}: renames the bucket in one transaction and
/// answers with the id of a job that has ended (docs/decisions/009). 409 when the destination
/// exists or a job works on one of the two.
Task<Status> rename_bucket(const Services& services, http::Request& request, api::Bucket from);

/// The destination of a copy, made with the source's properties when it is not there.
Task<Result<KnownBucket>> find_or_make_goal(const Services& services, api::Bucket name,
                                            const cluster::BucketRecord& source);

// Their work (Jobs::Drive). A copy that is begun again copies the objects that differ at the goal:
// in size, checksum or custom metadata.
Task<Status> drive_bucket_copy(const Services& services, Job job);
Task<Status> drive_make_copies(const Services& services, Job job);
Task<Status> drive_bucket_rename(const Services& services, Job job);

}  // namespace tarn::proxy
