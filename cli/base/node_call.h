#pragma once

#include <string>

#include "cli/base/session.h"

namespace tarn::cli {

/// One call of /v1/daemon... at node `node`, by way of the endpoint: `path` is what follows
/// /v1/reverse. An answer of 400 or more is an error; nothing is repeated.
Task<Result<std::string>> call_node(Session& session, http::Method method, std::string node,
                                    std::string path, std::string body = {});

}  // namespace tarn::cli
