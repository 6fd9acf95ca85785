#include "target/request/head_request.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "common/base/encoding.h"

namespace tarn::target {
namespace {

constexpr std::array<std::pair<std::string_view, HeadRequest::Property>, 12> kProperties{
    {{"name", HeadRequest::name},
     {"size", HeadRequest::size},
     {"version", HeadRequest::version},
     {"checksum", HeadRequest::checksum},
     {"atime", HeadRequest::atime},
     {"custom", HeadRequest::custom},
     {"location", HeadRequest::location},
     {"copies", HeadRequest::copies},
     {"ec", HeadRequest::ec},
     {"chunked", HeadRequest::chunked},
     {"last-modified", HeadRequest::last_modified},
     {"etag", HeadRequest::etag}}};

Result<std::uint32_t> parse_properties(std::string_view list) {
  if (trim(list).empty()) return HeadRequest::name | HeadRequest::size;
  std::uint32_t out = 0;
  while (true) {
    const auto comma = list.find(',');
    const std::string_view word = trim(list.substr(0, comma));
    const auto found = std::find_if(kProperties.begin(), kProperties.end(),
                                    [&](const auto& known) { return known.first == word; });
    if (found == kProperties.end())
      return fail(Errc::invalid_argument,
                  "props: '{}' is no property of a HEAD; known are name, size, version, checksum, "
                  "atime, custom, location, copies, ec, chunked, last-modified, etag",
                  word);
    out |= found->second;
    if (comma == std::string_view::npos) return out;
    list.remove_prefix(comma + 1);
  }
}

}  // namespace

Result<HeadRequest> parse_head_request(const api::Query& query) {
  HeadRequest out;
  if (const auto props = query.find("props")) {
    out.selective = true;
    TRY(out.properties, parse_properties(*props));
  }
  const auto text = query.get("presence");
  const auto presence = text.empty() ? std::optional<std::uint64_t>(0) : parse_u64(text);
  if (!presence || *presence > 5)
    return fail(Errc::invalid_argument, "presence '{}': it is a number from 0 to 5", text);
  out.status_only = *presence == 1 || *presence == 3;
  out.present_only = *presence >= 2 && *presence <= 4;
  out.outside_only = *presence == 5;
  return out;
}

}  // namespace tarn::target
