#include "common/api/object_query.h"

#include <algorithm>
#include <array>

namespace tarn::api {
namespace {

struct LaterWord {
  std::string_view key;
  std::string_view feature;
};

constexpr std::array<LaterWord, 10> kLater{{{"archpath", "reading and writing members of archives"},
                                            {"archregx", "reading members of archives"},
                                            {"archmode", "reading members of archives"},
                                            {"archmime", "reading and writing members of archives"},
                                            {"etl_name", "transforms"},
                                            {"etl_args", "transforms"},
                                            {"etl_pipeline", "transforms"},
                                            {"uploadId", "multipart uploads"},
                                            {"partNumber", "multipart uploads"},
                                            {"bck_to", "copies of whole buckets"}}};

constexpr std::array<std::string_view, 7> kFlags{
    "latest-ver", "synchronize", "validate-checksum", "skip_vc", "set-new-custom", "sln", "dntres"};

/// Takes the part before the next '/' off `rest`, and the '/' as well.
std::string_view object_query_take_part(std::string_view& rest) {
  const auto slash = rest.find('/');
  const auto part = rest.substr(0, slash);
  rest = slash == std::string_view::npos ? std::string_view() : rest.substr(slash + 1);
  return part;
}

/// Of keys that come twice the first counts, as everywhere.
Status check_word(const Query& query, std::string_view key) {
  if (key == "uploads")
    return fail(Errc::unsupported, "uploads: multipart uploads belong to later work");
  const auto* const later = std::find_if(kLater.begin(), kLater.end(),
                                         [key](const LaterWord& word) { return word.key == key; });
  if (later != kLater.end() && !query.get(key).empty())
    return fail(Errc::unsupported, "{}={}: {} belong to later work", key, query.get(key),
                later->feature);
  if (std::find(kFlags.begin(), kFlags.end(), key) != kFlags.end()) TRY_OK(query.flag(key));
  return {};
}

}  // namespace

Status check_object_query(const Query& query) {
  for (const auto& [key, value] : query.items()) TRY_OK(check_word(query, key));
  return {};
}

Result<ObjectAddress> parse_uname(std::string_view text) {
  std::string_view rest = text;
  ObjectAddress address;
  const auto provider = object_query_take_part(rest);
  const auto ns = object_query_take_part(rest);
  address.bucket.name = object_query_take_part(rest);
  address.object = rest;
  if (provider.empty() || !ns.starts_with('@') || address.bucket.name.empty() ||
      address.object.empty())
    return fail(Errc::invalid_argument,
                "'{}' is not of the form provider/@uuid#namespace/bucket/object, such as "
                "ais/@#/photos/cat.jpg",
                text);
  TRY(address.bucket.provider, canonical_provider(provider));
  TRY_OK(parse_namespace(ns, address.bucket));
  TRY_OK(check_bucket_name(address.bucket.name));
  TRY_OK(check_object_name(address.object));
  return address;
}

}  // namespace tarn::api
