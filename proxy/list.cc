#include "proxy/list.h"

#include "common/api/status.h"
#include "common/base/fail_point.h"
#include "common/base/gather.h"
#include "proxy/node_calls.h"

namespace tarn::proxy {
namespace {

constexpr std::string_view kPath = "/v1/internal/list";
constexpr http::CallLimits kLimits{.total = std::chrono::seconds(30)};

/// The targets that a complete list needs. unavailable when one of them does not answer now.
Result<std::vector<const cluster::Node*>> targets_to_ask(const cluster::ClusterState& state,
                                                         const Answering& answering,
                                                         const std::string& pinned) {
  auto targets = state.map.placeable_targets();
  if (targets.empty()) return fail(Errc::unavailable, "no storage target has joined the cluster");
  if (!pinned.empty()) {
    const cluster::Node* target = state.map.find(pinned);
    if (target == nullptr || target->role != cluster::Role::target)
      return fail(Errc::not_found, "list: there is no target '{}' in the cluster map", pinned);
    targets = {target};
  }
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
  query.set("props", api::to_text(request.fields));
  query.set("time_format", api::layout_of(request.time_format));
  return std::string(kPath) + "?" + query.encode();
}

Task<Result<api::PackedPage>> ask_target(const Services& services, const cluster::Node& target,
                                         std::string path) {
  auto answer = co_await call_node(services, target, http::Method::get, std::move(path), kLimits);
  if (!answer)
    co_return fail(Errc::unavailable, "the list would be incomplete: {}", answer.error().message);
  if (answer->status == 404)
    co_return fail(Errc::bucket_not_found, "{}", api::error_message_of(answer->body));
  if (answer->status != 200)
    co_return fail(Errc::unavailable, "the list would be incomplete: target t[{}]: {} ({})",
                   target.id, api::error_message_of(answer->body), answer->status);
  auto page = api::decode_page(std::move(answer->body));
  if (!page) co_return fail(Errc::internal, "target t[{}]: {}", target.id, page.error().message);
  co_return std::move(*page);
}

}  // namespace

Task<Result<api::MergedPage>> list_entries(const Services& services, KnownBucket bucket,
                                           const ListRequest& request) {
  const cluster::ClusterState& state = *bucket.state;
  const auto answering = services.suspects.answering();
  CO_TRY(const auto targets, targets_to_ask(state, *answering, request.target));

  api::ListMerge merge(targets.size(), request.limit, request.after);
  for (auto wanting = merge.wanting(); !wanting.empty(); wanting = merge.wanting()) {
    std::vector<Task<Result<api::PackedPage>>> calls;
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
      CO_TRY(api::PackedPage page, std::move(pages[k]));
      const Status fed = merge.feed(wanting[k], std::move(page));
      if (!fed)
        co_return fail(Errc::internal, "target t[{}]: {}", targets[wanting[k]]->id,
                       fed.error().message);
    }
  }
  // A target that joined meanwhile may hold names that nobody was asked for.
  if (services.view.state()->map.version != state.map.version)
    co_return fail(Errc::unavailable, "the cluster map changed while the list was made");
  co_return merge.take();
}

}  // namespace tarn::proxy
