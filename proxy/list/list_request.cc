#include "proxy/list/list_request.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "common/api/bucket.h"
#include "common/base/encoding.h"

namespace tarn::proxy {
namespace {

using nlohmann::json;

// AIStore's bits of "flags".
enum Flag : std::uint64_t {
  kCached = 1,
  kMissing = 2,  // objects whose place is wrong or that lack a copy: we have none such
  kDeleted = 4,  // objects that an upstream bucket has lost
  kArchives = 8,
  kNameOnly = 16,
  kNameSize = 32,
  kBucketPresent = 64,
  kDontHeadRemote = 128,
  kDontAddRemote = 256,
  kNotCached = 512,
  kOnlyRemoteProps = 1024,
  kNoRecursion = 2048,
  kDifferences = 4096,
  kNoDirectories = 8192,  // has a meaning for upstream buckets only
  kIsS3 = 16384,
  kInventory = 32768,
};
constexpr std::uint64_t kKnownFlags = kCached | kMissing | kDeleted | kNameOnly | kNameSize |
                                      kBucketPresent | kDontHeadRemote | kDontAddRemote |
                                      kNotCached | kOnlyRemoteProps | kNoRecursion |
                                      kNoDirectories | kIsS3 | kInventory;
constexpr std::uint64_t kFlagsEnd = 1ULL << 16U;

/// A text of the message; absent and null are "".
Result<std::string> list_request_text_of(const json& value, const char* key) {
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

Status check_flags(std::uint64_t flags) {
  if (flags >= kFlagsEnd)
    return fail(Errc::invalid_argument, "list: flags {} has unknown bits", flags);
  if ((flags & kCached) != 0 && (flags & kNotCached) != 0)
    return fail(Errc::invalid_argument,
                "list: flags 1 (CACHED) and 512 (NOT_CACHED) exclude each other");
  if ((flags & kArchives) != 0)
    return fail(Errc::unsupported,
                "list: flags 8 (ARCH_DIR): the inside of archives belongs to later work");
  if ((flags & kDifferences) != 0)
    return fail(Errc::unsupported,
                "list: flags 4096 (DIFF): comparing with an upstream bucket belongs to later work");
  if (const auto later = flags & ~std::uint64_t{kKnownFlags}; later != 0)
    return fail(Errc::unsupported, "list: flags {} of {} belong to later work", later, flags);
  return {};
}

}  // namespace

Result<ListRequest> parse_list_request(const json& value) {
  ListRequest out;
  if (value.is_null()) return out;
  if (!value.is_object()) return fail(Errc::invalid_argument, "list: value is no JSON object");
  TRY(out.prefix, list_request_text_of(value, "prefix"));
  if (out.prefix.ends_with('*')) out.prefix.pop_back();
  TRY_OK(api::check_prefix(out.prefix));
  TRY(const auto start_after, list_request_text_of(value, "start_after"));
  TRY(const auto token, list_request_text_of(value, "continuation_token"));
  out.after = std::max(start_after, token);
  TRY(out.uuid, list_request_text_of(value, "uuid"));
  TRY(const auto limit, number_of(value, "pagesize"));
  if (limit > 0) out.limit = std::min<std::uint64_t>(limit, ListRequest::kLimitMax);
  TRY(const auto format, list_request_text_of(value, "time_format"));
  TRY(out.time_format, api::parse_time_format(format));
  TRY(out.target, list_request_text_of(value, "target"));

  TRY(const auto flags, number_of(value, "flags"));
  TRY_OK(check_flags(flags));
  out.recursive = (flags & kNoRecursion) == 0;
  out.cached = (flags & kCached) != 0;
  out.not_cached = (flags & kNotCached) != 0;
  out.known_only = (flags & kBucketPresent) != 0;
  out.inventory = (flags & kInventory) != 0;
  TRY(const auto props, list_request_text_of(value, "props"));
  if (!props.empty()) {
    TRY(out.fields, api::parse_list_fields(props));
  } else if ((flags & kCached) != 0) {
    out.fields = {.size = true, .checksum = true, .atime = true};
  }
  if ((flags & kNameSize) != 0) out.fields = {.size = true};
  if ((flags & kNameOnly) != 0) out.fields = {.size = false};
  return out;
}

}  // namespace tarn::proxy
