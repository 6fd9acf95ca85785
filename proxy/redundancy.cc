#include "proxy/redundancy.h"

#include <nlohmann/json.hpp>

#include "common/api/copy_counts.h"
#include "common/api/mirror_props.h"
#include "common/api/status.h"
#include "common/base/gather.h"
#include "proxy/assign.h"
#include "proxy/target_counts.h"

namespace tarn::proxy {
namespace {

using nlohmann::json;

Task<Result<json>> count_bucket(const Services& services, const cluster::ClusterState& state,
                                const cluster::BucketRecord& bucket) {
  api::Query query;
  query.set("bucket", std::to_string(raw(bucket.id)));
  query.set("bmd", std::to_string(state.bmd.version));
  const std::string path = "/v1/internal/redundancy?" + query.encode();
  std::vector<Task<Result<api::CopyCounts>>> calls;
  for (const auto& [id, node] : state.map.nodes)
    if (node.role == cluster::Role::target)
      calls.push_back(ask_counts<api::CopyCounts>(services, node, path));
  const auto counts = co_await gather(std::move(calls));
  api::CopyCounts sum;
  for (const auto& each : counts) {
    CO_TRY_OK(each);
    sum.add(*each);
  }
  json out = sum;
  out["name"] = bucket.name.name;
  out["provider"] = bucket.name.provider;
  out["copies"] = std::max<int>(1, api::copies_of(bucket.props));
  co_return out;
}

}  // namespace

Task<Result<http::Response>> answer_redundancy(const Services& services,
                                               const http::Request& request) {
  const std::string name(request.query().get("bucket"));
  json buckets = json::array();
  if (!name.empty()) {
    CO_TRY_OK(api::check_bucket_name(name));
    CO_TRY(const api::Bucket bucket, api::bucket_from(name, request.query()));
    CO_TRY(const KnownBucket known, co_await find_bucket(services, bucket));
    CO_TRY(json one, co_await count_bucket(services, *known.state, *known.record));
    buckets.push_back(std::move(one));
  } else {
    const auto state = services.view.state();
    for (const auto& [bucket, record] : state->bmd.buckets) {
      CO_TRY(json one, co_await count_bucket(services, *state, record));
      buckets.push_back(std::move(one));
    }
  }
  co_return http::Response(200, http::kJson, json{{"buckets", buckets}}.dump() + "\n");
}

}  // namespace tarn::proxy
