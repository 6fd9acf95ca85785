#pragma once

#include <cstdint>

#include "common/api/request_path.h"
#include "common/base/error.h"

namespace tarn::target {

/// Properties that a HEAD of an object asks for (docs/api.md). Without `props=` everything
/// (AIStore's first version), with it those properties only.
struct HeadRequest {
  /// Bits of `properties`.
  enum Property : std::uint32_t {
    name = 1U << 0U,
    size = 1U << 1U,
    version = 1U << 2U,
    checksum = 1U << 3U,
    atime = 1U << 4U,
    custom = 1U << 5U,
    location = 1U << 6U,
    copies = 1U << 7U,
    ec = 1U << 8U,
    chunked = 1U << 9U,
    last_modified = 1U << 10U,
    etag = 1U << 11U,
  };
  bool selective = false;        ///< `props=` was there
  std::uint32_t properties = 0;  ///< of Property; when selective
  bool status_only = false;      ///< presence 1 or 3: is it there, and nothing else
  bool present_only = false;     ///< presence 2, 3 or 4: upstream is not asked
  bool outside_only = false;     ///< presence 5: an object of the cluster is an error

  [[nodiscard]] bool wants(Property one) const { return (properties & one) != 0; }
};

/// invalid_argument for a property or a presence that does not exist, naming those that do.
[[nodiscard]] Result<HeadRequest> parse_head_request(const api::Query& query);

}  // namespace tarn::target
