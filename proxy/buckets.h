#pragma once

#include <string>

#include "common/base/async.h"
#include "common/base/error.h"
#include "common/http/router.h"
#include "proxy/services.h"

namespace tarn::proxy {

/// What AIStore's clients do with buckets: /v1/buckets and /v1/buckets/<name>, and the same below
/// /ais. Each reads its JSON body, acts on the meta store and answers.

/// GET /v1/buckets: the buckets, as a JSON array.
Task<Status> list_buckets(const Services& services, http::Request& request);
/// GET /v1/buckets/B: one page of its objects, in msgpack or JSON as the client accepts.
Task<Status> list_objects(const Services& services, http::Request& request, std::string bucket);
/// HEAD /v1/buckets/B: its properties in Ais-Bucket-Props.
Task<Status> head_bucket(const Services& services, http::Request& request, std::string bucket);
/// POST /v1/buckets/B: create-bck. A GET or PUT that follows anywhere knows the bucket.
Task<Status> post_bucket(const Services& services, http::Request& request, std::string bucket);
/// DELETE /v1/buckets/B: destroy-bck. Answers when every live target knows that it is gone.
Task<Status> delete_bucket(const Services& services, http::Request& request, std::string bucket);
/// /v1/buckets/B/ is /v1/buckets/B, as for AIStore. What may stand behind that slash (a prefix, for
/// summaries) belongs to later work: unsupported.
Task<Status> bucket_with_slash(const Services& services, http::Request& request, std::string bucket,
                               std::string rest);
/// PATCH /v1/buckets/B: properties cannot be changed yet; says so.
Task<Status> patch_bucket(const Services& services, http::Request& request, std::string bucket);

}  // namespace tarn::proxy
