#pragma once

#include <chrono>
#include <cstdint>

#include "common/api/bucket_props.h"
#include "common/base/error.h"

namespace tarn::api {

/// Kinds of requests to an upstream server, each with a limit of its own.
enum class BackendRequest : std::uint8_t {
  read,   ///< GET, HEAD and lists; "get" in properties
  write,  ///< PUT and POST; "put"
  remove  ///< DELETE; "delete"
};

/// Limits of the requests and bytes of a bucket to its upstream server, of all targets together:
/// the properties rate_limit.backend.*.
struct BackendRate {
  bool enabled = false;  ///< the limits below count, but for bytes_per_second
  std::chrono::milliseconds interval{60'000};
  std::uint64_t reads = 1000;  ///< in each interval
  std::uint64_t writes = 1000;
  std::uint64_t removals = 1000;
  unsigned retries = 3;                ///< after a failure that may pass
  std::uint64_t bytes_per_second = 0;  ///< in each direction; 0: as many as come

  bool operator==(const BackendRate&) const = default;

  [[nodiscard]] std::uint64_t requests(BackendRequest kind) const;
};

/// invalid_argument, naming the property, for limits that make no sense: an interval below a
/// second, or a per_op_max_tokens that is not "get:100,put:50,delete:10" or a part of it.
[[nodiscard]] Result<BackendRate> backend_rate_of(const BucketProps& props);

}  // namespace tarn::api
