#pragma once

#include <nlohmann/json.hpp>

#include "common/base/async.h"
#include "common/base/ids.h"
#include "common/http/router.h"
#include "proxy/core/services.h"

namespace tarn::proxy {

// Reasons why objects are not made whole, as targets report them (target/node/wait_reasons.h), for
// the cluster.

/// {"ID":{"down_seconds":N,"out_in_seconds":N}}: the time for which each target that is away has
/// been so, at least, and the time until it is out. The primary counts it; {} if that does not
/// answer.
Task<nlohmann::json> absent_targets(const Services& services);
/// GET /v1/internal/absences, by which other proxies ask the primary for it.
Task<Status> tell_absences(const Services& services, http::Request& request);

/// Reasons of all targets, each once: [{"why","objects","targets":["ID"],..}]. `objects` are
/// summed; those that wait for a node have its entry of `absent`. `reports`: by target, as GET
/// /v1/internal/rebuild. Pure. Throws nlohmann::json::exception for reports that are none.
[[nodiscard]] nlohmann::json sum_of_waits(const nlohmann::json& reports,
                                          const nlohmann::json& absent);
/// The same of one bucket.
[[nodiscard]] nlohmann::json waits_of_bucket(const nlohmann::json& reports, BucketId bucket,
                                             const nlohmann::json& absent);

}  // namespace tarn::proxy
