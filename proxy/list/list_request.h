#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "common/api/list_fields.h"
#include "common/base/error.h"

namespace tarn::proxy {

/// A page of a list, as a client asks for it: AIStore's LsoMsg (docs/api.md).
struct ListRequest {
  std::string prefix;
  std::string after;  ///< names strictly greater: the later of start_after and the token
  std::string uuid;   ///< of the listing; empty at its first page
  std::size_t limit = 10'000;
  bool recursive = true;
  bool cached = false;         ///< only the cluster's objects: all of a bucket without upstream
  bool not_cached = false;     ///< only those that upstream has and the cluster has not
  bool known_only = false;     ///< a bucket that is not known here is not looked for upstream
  bool inventory = false;      ///< the objects in an inventory of the bucket
  std::string inventory_name;  ///< empty: the only one
  std::string target;          ///< only objects of this target; empty: all
  api::ListFields fields;
  api::TimeFormat time_format = api::TimeFormat::rfc822;

  static constexpr std::size_t kLimitMax = 10'000;
};

/// Reads the value of action "list"; null stands for all defaults. Requests that this version
/// cannot answer in full are refused: unsupported for flags of later work, invalid_argument, naming
/// the key, for all that is malformed.
[[nodiscard]] Result<ListRequest> parse_list_request(const nlohmann::json& value);

}  // namespace tarn::proxy
