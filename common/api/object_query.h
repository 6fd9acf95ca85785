#pragma once

#include <string>
#include <string_view>

#include "common/api/bucket.h"
#include "common/api/request_path.h"
#include "common/base/error.h"

namespace tarn::api {

/// Judges the query of a request for an object before anything is done for it: unsupported for
/// words of features that this version does not have (members of archives, multipart uploads,
/// transforms), invalid_argument for flags that are no booleans. Empty values of words that clients
/// always send (`archpath=`) have no meaning and pass.
Status check_object_query(const Query& query);

/// A bucket and an object, as they stand in `object_to=`.
struct ObjectAddress {
  Bucket bucket;
  std::string object;
};
/// Takes "<provider>/<namespace>/<bucket>/<object>" apart, <namespace> being "@#" for the global
/// one or "@uuid#name" (docs/api.md), and checks all names. invalid_argument.
[[nodiscard]] Result<ObjectAddress> parse_uname(std::string_view text);

}  // namespace tarn::api
