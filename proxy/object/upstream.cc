#include "proxy/object/upstream.h"

#include <nlohmann/json.hpp>

#include "common/api/eviction_props.h"
#include "common/api/status.h"
#include "common/api/upstream_props.h"
#include "common/base/random.h"
#include "common/base/read_json.h"
#include "common/cluster/state/bucket_changes.h"
#include "common/obs/log.h"
#include "proxy/core/targets.h"
#include "proxy/watch/node_calls.h"

namespace tarn::proxy {
namespace {

constexpr const char* kCheckPath = "/v1/internal/upstream/check";
constexpr const char* kBucketsPath = "/v1/internal/upstream/buckets?provider=";
// Longer than a target tries.
constexpr http::CallLimits kCheckLimits{.total = std::chrono::seconds(90)};

}  // namespace

Result<const cluster::Node*> target_for_upstream(const cluster::ClusterState& state,
                                                 const Answering& answering) {
  TRY(auto targets, targets_that_may_hold(state));
  std::erase_if(targets, [&](const auto* each) { return !answering.contains(each->id); });
  if (targets.empty())
    return fail(Errc::unavailable, "no target answers now that could ask upstream");
  return targets[random_u64() % targets.size()];
}

Task<Result<api::BucketProps>> check_upstream_bucket(const Services& services, api::Bucket name,
                                                     api::BucketProps props, Server server) {
  const auto state = services.view.state();
  const auto answering = services.suspects.answering();
  CO_TRY(const auto* target, target_for_upstream(*state, *answering));
  nlohmann::json tree = api::props_tree(props);
  const nlohmann::json order{{"bucket", name},
                             {"props", {{"extra", tree["extra"]}}},
                             {"configured", server == Server::configured}};
  http::CallLimits limits = kCheckLimits;
  limits.is_silent = answering->silence_of(target->id);
  CO_TRY(const auto answer, co_await call_node(services, *target, http::Method::post, kCheckPath,
                                               limits, order.dump()));
  if (answer.status != 200)
    co_return fail(api::errc_of_answer(answer.status, answer.body), "{}",
                   api::error_message_of(answer.body));
  const auto asked = nlohmann::json::parse(answer.body, nullptr, false);
  if (!asked.is_object())
    co_return fail(Errc::internal, "target t[{}]: no answer about upstream", target->id);
  co_return api::with_changes(std::move(props), asked);
}

Task<Result<std::vector<api::Bucket>>> list_account_buckets(const Services& services,
                                                            std::string provider) {
  const auto state = services.view.state();
  const auto answering = services.suspects.answering();
  CO_TRY(const auto* target, target_for_upstream(*state, *answering));
  http::CallLimits limits = kCheckLimits;
  limits.is_silent = answering->silence_of(target->id);
  CO_TRY(const auto answer, co_await call_node(services, *target, http::Method::get,
                                               kBucketsPath + std::move(provider), limits));
  if (answer.status != 200)
    co_return fail(api::errc_of_answer(answer.status, answer.body), "{}",
                   api::error_message_of(answer.body));
  co_return parse_json<std::vector<api::Bucket>>(
      answer.body, Errc::internal, fmt::format("target t[{}]: buckets of upstream", target->id));
}

Result<cluster::BucketProps> upstream_defaults(const cluster::ClusterConfig& config) {
  TRY(cluster::BucketProps props, cluster::bucket_defaults(config));
  std::erase_if(props.others, [](const auto& each) {
    return each.first.starts_with("mirror.") || each.first.starts_with("ec.");
  });
  return api::with_eviction(std::move(props));
}

Task<Result<std::optional<api::BucketProps>>> look_upstream(const Services& services,
                                                            api::Bucket name) {
  CO_TRY(auto props, upstream_defaults(services.view.state()->config));
  auto there = co_await check_upstream_bucket(services, name, std::move(props), Server::configured);
  if (!there && there.error().code == Errc::bucket_not_found) co_return std::nullopt;
  if (!there) co_return fail(there.error());
  co_return std::move(*there);
}

Task<Result<KnownBucket>> find_or_adopt_bucket(const Services& services, api::Bucket name) {
  auto found = co_await find_bucket(services, name);
  const bool is_unknown = !found && is_unknown_bucket(found.error());
  if (!is_unknown || !api::is_found_by_name(name)) co_return found;
  CO_TRY(auto there, co_await look_upstream(services, name));
  if (!there) co_return found;
  const auto made = co_await cluster::create_bucket(services.store, services.view, name,
                                                    std::move(*there), services.clock);
  // Another proxy may have been faster.
  if (!made && made.error().code != Errc::bucket_exists) co_return fail(made.error());
  obs::log("proxy").info("bucket of upstream became known bucket={}", name.display());
  found = co_await find_bucket(services, std::move(name));
  co_return found;
}

Error no_write_through(const api::Bucket& bucket) {
  return {Errc::unsupported,
          fmt::format("bucket \"{}\" is a web server's, and is read only: put the file there by "
                      "other means",
                      bucket.display())};
}

}  // namespace tarn::proxy
