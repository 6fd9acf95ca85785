#include "proxy/list_request.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>

#include <fmt/chrono.h>
#include <nlohmann/json.hpp>

#include "common/api/bucket.h"
#include "common/base/encoding.h"

namespace tarn::proxy {
namespace {

using nlohmann::json;

// AIStore's bits of "flags".
enum Flag : std::uint64_t {
  kCached = 1,
  kNameOnly = 16,
  kNameSize = 32,
  kBucketPresent = 64,
  kDontHeadRemote = 128,
  kDontAddRemote = 256,
  kOnlyRemoteProps = 1024,
  kNoRecursion = 2048,
  kNoDirectories = 8192,  // has a meaning for upstream buckets only
  kIsS3 = 16384,
};
constexpr std::uint64_t kKnownFlags = kCached | kNameOnly | kNameSize | kBucketPresent |
                                      kDontHeadRemote | kDontAddRemote | kOnlyRemoteProps |
                                      kNoRecursion | kNoDirectories | kIsS3;
constexpr std::uint64_t kFlagsEnd = 1ULL << 16U;
constexpr std::uint64_t kNotCached = 512;

struct Layout {
  std::string_view text;  ///< of Go's time package
  TimeFormat format;
};
constexpr std::array<Layout, 7> kLayouts{
    {{"", TimeFormat::rfc822},
     {"02 Jan 06 15:04 MST", TimeFormat::rfc822},
     {"Mon, 02 Jan 2006 15:04:05 MST", TimeFormat::rfc1123},
     {"2006-01-02T15:04:05Z07:00", TimeFormat::rfc3339},
     {"2006-01-02T15:04:05.999999999Z07:00", TimeFormat::rfc3339_nano},
     {"Jan _2 15:04:05.000", TimeFormat::stamp_milli},
     {"RFC3339", TimeFormat::rfc3339}}};

/// A text of the message; absent and null are "".
Result<std::string> text_of(const json& value, const char* key) {
  const auto found = value.find(key);
  if (found == value.end() || found->is_null()) return "";
  if (!found->is_string())
    return fail(Errc::invalid_argument, "list: {} is no string but {}", key, found->dump());
  return found->get<std::string>();
}

/// AIStore writes some numbers as numbers and some as decimal strings.
Result<std::uint64_t> number_of(const json& value, const char* key) {
  const auto found = value.find(key);
  if (found == value.end() || found->is_null()) return 0;
  if (found->is_number_unsigned() ||
      (found->is_number_integer() && found->get<std::int64_t>() >= 0))
    return found->get<std::uint64_t>();
  if (found->is_string()) {
    const auto text = found->get<std::string>();
    if (text.empty()) return 0;
    if (const auto parsed = parse_u64(text)) return *parsed;
  }
  return fail(Errc::invalid_argument, "list: {} is no number from 0 on but {}", key,
              found->dump(-1, ' ', false, json::error_handler_t::replace));
}

Result<ListFields> fields_from(std::string_view props) {
  ListFields out{.size = false};
  while (!props.empty()) {
    const auto end = std::min(props.find(','), props.size());
    const auto word = trim(props.substr(0, end));
    props.remove_prefix(std::min(end + 1, props.size()));
    if (word == "size") {
      out.size = true;
    } else if (word == "checksum") {
      out.checksum = true;
    } else if (word == "version") {
      out.version = true;
    } else if (word == "atime") {
      out.atime = true;
    } else if (word == "location") {
      out.location = true;
    } else if (word == "copies") {
      out.copies = true;
    } else if (word != "name" && word != "cached" && word != "status" && word != "ec" &&
               word != "custom" && word != "chunked" && word != "last-modified" && word != "etag" &&
               !word.empty()) {
      return fail(Errc::invalid_argument, "list: unknown name '{}' in props", word);
    }
  }
  return out;
}

Status check_flags(std::uint64_t flags) {
  if (flags >= kFlagsEnd)
    return fail(Errc::invalid_argument, "list: flags {} has bits that nobody knows", flags);
  if ((flags & kNotCached) != 0)
    return fail(Errc::invalid_argument,
                "list: flags 512 (NOT_CACHED) are for upstream buckets only");
  if (const auto later = flags & ~std::uint64_t{kKnownFlags}; later != 0)
    return fail(Errc::unsupported, "list: flags {} of {} belong to later work", later, flags);
  return {};
}

Result<TimeFormat> time_format_from(std::string_view text) {
  const auto layout = std::find_if(kLayouts.begin(), kLayouts.end(),
                                   [&](const Layout& each) { return each.text == text; });
  if (layout == kLayouts.end())
    return fail(Errc::invalid_argument,
                "list: time_format '{}' is none of Go's RFC822, RFC1123, RFC3339, RFC3339Nano or "
                "StampMilli",
                text);
  return layout->format;
}

}  // namespace

Result<ListRequest> parse_list_request(const json& value) {
  ListRequest out;
  if (value.is_null()) return out;
  if (!value.is_object()) return fail(Errc::invalid_argument, "list: value is no JSON object");
  TRY(out.prefix, text_of(value, "prefix"));
  if (out.prefix.ends_with('*')) out.prefix.pop_back();
  TRY_OK(api::check_prefix(out.prefix));
  TRY(const auto start_after, text_of(value, "start_after"));
  TRY(const auto token, text_of(value, "continuation_token"));
  out.after = std::max(start_after, token);
  TRY(out.uuid, text_of(value, "uuid"));
  TRY(const auto limit, number_of(value, "pagesize"));
  if (limit > 0) out.limit = std::min<std::uint64_t>(limit, ListRequest::kLimitMax);
  TRY(const auto format, text_of(value, "time_format"));
  TRY(out.time_format, time_format_from(format));
  TRY(const auto target, text_of(value, "target"));
  if (!target.empty())
    return fail(Errc::unsupported, "list: a list of one target ({}) belongs to later work", target);

  TRY(const auto flags, number_of(value, "flags"));
  TRY_OK(check_flags(flags));
  out.recursive = (flags & kNoRecursion) == 0;
  TRY(const auto props, text_of(value, "props"));
  if (!props.empty()) {
    TRY(out.fields, fields_from(props));
  } else if ((flags & kCached) != 0) {
    out.fields = {.size = true, .checksum = true, .atime = true};
  }
  if ((flags & kNameSize) != 0) out.fields = {.size = true};
  if ((flags & kNameOnly) != 0) out.fields = {.size = false};
  return out;
}

std::string format_time(std::int64_t wall_ns, TimeFormat format) {
  const auto seconds = static_cast<std::time_t>(wall_ns / 1'000'000'000);
  const auto nanoseconds = wall_ns % 1'000'000'000;
  const std::tm utc = fmt::gmtime(seconds);
  switch (format) {
    case TimeFormat::rfc822: return fmt::format("{:%d %b %y %H:%M} UTC", utc);
    case TimeFormat::rfc1123: return fmt::format("{:%a, %d %b %Y %H:%M:%S} UTC", utc);
    case TimeFormat::rfc3339: return fmt::format("{:%Y-%m-%dT%H:%M:%S}Z", utc);
    case TimeFormat::rfc3339_nano:
      return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:09}Z", utc, nanoseconds);
    case TimeFormat::stamp_milli:
      return fmt::format("{:%b %e %H:%M:%S}.{:03}", utc, nanoseconds / 1'000'000);
  }
  return "";
}

}  // namespace tarn::proxy
