#include "common/api/eviction_props.h"

#include <nlohmann/json.hpp>

#include "common/api/upstream_props.h"
#include "common/base/settings.h"

namespace tarn::api {
namespace {

constexpr const char* kEnabled = "lru.enabled";
constexpr const char* kProtect = "lru.dont_evict_time";
constexpr std::chrono::hours kProtectDefault{2};

}  // namespace

EvictionProps eviction_of(const Bucket& bucket, const BucketProps& props) {
  EvictionProps out{has_upstream(bucket) && props.others.contains(kEnabled), kProtectDefault};
  const auto set = props.others.find(kProtect);
  if (set == props.others.end()) return out;
  const auto text = nlohmann::json::parse(set->second, nullptr, false);
  if (const auto time =
          text.is_string() ? parse_duration(text.get<std::string>()) : parse_duration(""))
    out.protect = *time;
  return out;
}

BucketProps with_eviction(BucketProps props) {
  props.others[kEnabled] = "true";
  return props;
}

}  // namespace tarn::api
