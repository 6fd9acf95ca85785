#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "common/base/error.h"

namespace tarn::proxy {

/// Which fields of an entry a client gets, besides its name.
struct ListFields {
  bool size = true;
  bool checksum = false;
  bool version = false;
  bool atime = false;
  bool location = false;
  bool copies = false;

  bool operator==(const ListFields&) const = default;
};

/// How access times are written; AIStore's clients name it by a layout of Go's time package.
enum class TimeFormat { rfc822, rfc1123, rfc3339, rfc3339_nano, stamp_milli };

/// A page of a list, as a client asks for it: AIStore's LsoMsg (aistore-api.md, section 2.6).
struct ListRequest {
  std::string prefix;
  std::string after;  ///< names strictly greater: the later of start_after and the token
  std::string uuid;   ///< of the listing; empty at its first page
  std::size_t limit = 10'000;
  bool recursive = true;
  ListFields fields;
  TimeFormat time_format = TimeFormat::rfc822;

  static constexpr std::size_t kLimitMax = 10'000;
};

/// Reads the value of action "list"; null stands for all defaults. What this version cannot answer
/// is refused and not left out: unsupported for flags of later work, invalid_argument, naming the
/// key, for everything malformed.
[[nodiscard]] Result<ListRequest> parse_list_request(const nlohmann::json& value);

/// `wall_ns` in UTC: "21 Nov 26 10:11 UTC" for rfc822.
[[nodiscard]] std::string format_time(std::int64_t wall_ns, TimeFormat format);

}  // namespace tarn::proxy
