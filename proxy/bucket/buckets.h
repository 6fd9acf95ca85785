#pragma once

#include <string>

#include "common/base/async.h"
#include "common/base/error.h"
#include "common/http/router.h"
#include "proxy/core/services.h"

namespace tarn::proxy {

/// Requests of AIStore's clients for buckets: /v1/buckets and /v1/buckets/<name>, and the same
/// below /ais. Each reads its JSON body, acts on the meta store and answers.

/// GET /v1/buckets: the buckets, as a JSON array; or a summary of all.
Task<Status> list_buckets(const Services& services, http::Request& request);
/// GET /v1/buckets/B: one page of its objects, in msgpack or JSON as the client accepts; or its
/// summary.
Task<Status> list_objects(const Services& services, http::Request& request, std::string bucket);
/// HEAD /v1/buckets/B: its properties in Ais-Bucket-Props; with bsumm_remote= its summary, too.
Task<Status> head_bucket(const Services& services, http::Request& request, std::string bucket);
/// HEAD /v1/buckets/B/PREFIX: the same, of the objects below the prefix (bsumm_remote=).
Task<Status> head_below(const Services& services, http::Request& request, std::string bucket,
                        std::string prefix);
/// POST /v1/buckets/B: create-bck. A GET or PUT that follows anywhere knows the bucket.
Task<Status> post_bucket(const Services& services, http::Request& request, std::string bucket);
/// DELETE /v1/buckets/B: destroy-bck. Answers when every live target knows that it is gone.
Task<Status> delete_bucket(const Services& services, http::Request& request, std::string bucket);
/// Finishes destroying buckets where the proxy that was asked did not (cluster::destroy_bucket()).
/// Runs until it is cancelled; `services` must outlive it.
Task<void> finish_destroying(const Services& services);
/// /v1/buckets/B/ is /v1/buckets/B, as for AIStore. Only HEAD may have a text after that slash: a
/// prefix.
Task<Status> bucket_with_slash(const Services& services, http::Request& request, std::string bucket,
                               std::string rest);
/// PATCH /v1/buckets/B: set-bprops and reset-bprops. Answers when every live target knows.
Task<Status> patch_bucket(const Services& services, http::Request& request, std::string bucket);

}  // namespace tarn::proxy
