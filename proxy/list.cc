#include "proxy/list.h"

#include "common/api/status.h"
#include "common/base/fail_point.h"
#include "common/base/gather.h"
#include "proxy/list_codec.h"
#include "proxy/list_merge.h"

namespace tarn::proxy {
namespace {

constexpr std::string_view kPath = "/v1/internal/list";
constexpr http::CallLimits kLimits{.total = std::chrono::seconds(30)};

/// The targets that a complete list needs. unavailable when one of them does not answer now.
Result<std::vector<const cluster::Node*>> targets_to_ask(const cluster::ClusterState& state,
                                                         const Answering& answering) {
  auto targets = state.map.placeable_targets();
  if (targets.empty()) return fail(Errc::unavailable, "no storage target has joined the cluster");
  if (!SAFETY("safety.list_all_targets")) targets.pop_back();
  for (const cluster::Node* target : targets)
    if (!answering.contains(target->id))
      return fail(Errc::unavailable,
                  "the list would be incomplete: target t[{}] does not answer now", target->id);
  return targets;
}

std::string path_and_query(const cluster::ClusterState& state, const cluster::BucketRecord& bucket,
                           const ListRequest& request, const std::string& after,
                           std::size_t limit) {
  api::Query query;
  query.set("bucket", std::to_string(raw(bucket.id)));
  query.set("bmd", std::to_string(state.bmd.version));
  query.set("prefix", request.prefix);
  query.set("after", after);
  query.set("limit", std::to_string(limit));
  query.set("delimiter", request.recursive ? "" : "/");
  return std::string(kPath) + "?" + query.encode();
}

Task<Result<TargetPage>> ask_target(const Services& services, const cluster::Node& target,
                                    std::string path) {
  CO_TRY(http::Url address, http::parse_url(target.internal_url));
  http::ClientRequest request;
  request.fields.push_back(
      {std::string(security::NodeAuth::kHeader), services.auth.sign("GET", path)});
  request.target = std::move(path);
  const auto answer =
      co_await services.client.call(std::move(address), std::move(request), kLimits);
  if (!answer)
    co_return fail(Errc::unavailable, "the list would be incomplete: target t[{}]: {}", target.id,
                   answer.error().message);
  if (answer->status == 404)
    co_return fail(Errc::bucket_not_found, "{}", api::error_message_of(answer->body));
  if (answer->status != 200)
    co_return fail(Errc::unavailable, "the list would be incomplete: target t[{}]: {} ({})",
                   target.id, api::error_message_of(answer->body), answer->status);
  auto page = decode_target_page(answer->body);
  if (!page) co_return fail(Errc::internal, "target t[{}]: {}", target.id, page.error().message);
  co_return std::move(*page);
}

}  // namespace

Task<Result<ListedEntries>> list_entries(const Services& services, KnownBucket bucket,
                                         const ListRequest& request) {
  const cluster::ClusterState& state = *bucket.state;
  const auto answering = services.suspects.answering();
  CO_TRY(const auto targets, targets_to_ask(state, *answering));

  ListMerge merge(targets.size(), request.limit, request.after);
  for (auto wanting = merge.wanting(); !wanting.empty(); wanting = merge.wanting()) {
    std::vector<Task<Result<TargetPage>>> calls;
    calls.reserve(wanting.size());
    for (const std::size_t i : wanting)
      calls.push_back(ask_target(
          services, *targets[i],
          path_and_query(state, *bucket.record, request, merge.after(i), merge.batch())));
    auto pages = co_await gather(std::move(calls));
    for (std::size_t k = 0; k < wanting.size(); ++k) {
      if (!pages[k] && pages[k].error().code == Errc::bucket_not_found) {
        CO_TRY(const auto now, co_await services.view.fresh());
        if (now->bmd.find(bucket.record->id) == nullptr)
          co_return fail(bucket_not_found(bucket.record->name));
        pages[k].error().code = Errc::unavailable;
      }
      CO_TRY(TargetPage page, std::move(pages[k]));
      const Status fed = merge.feed(wanting[k], std::move(page.entries), page.more);
      if (!fed)
        co_return fail(Errc::internal, "target t[{}]: {}", targets[wanting[k]]->id,
                       fed.error().message);
    }
  }
  // A target that joined meanwhile may hold names that nobody was asked for.
  if (services.view.state()->map.version != state.map.version)
    co_return fail(Errc::unavailable, "the cluster map changed while the list was made");
  const bool more = merge.more();
  co_return ListedEntries{merge.take(), more};
}

}  // namespace tarn::proxy
