#include "proxy/list/list.h"

#include <algorithm>
#include <utility>

#include "common/api/mirror_props.h"
#include "common/api/status.h"
#include "common/api/upstream_props.h"
#include "common/base/check.h"
#include "common/base/fail_point.h"
#include "common/base/gather.h"
#include "common/base/pause.h"
#include "common/cluster/place/visible_names.h"
#include "proxy/core/targets.h"
#include "proxy/object/upstream.h"
#include "proxy/watch/node_calls.h"

namespace tarn::proxy {
namespace {

constexpr std::string_view kListPath = "/v1/internal/list";
constexpr std::string_view kUpstreamListPath = "/v1/internal/upstream/list";
constexpr http::CallLimits kListLimits{.total = std::chrono::seconds(30)};
constexpr std::chrono::seconds kListPatience{30};  // while one map follows another
constexpr std::chrono::milliseconds kPause{50};    // for the death of a target to be known

/// The targets that a complete list needs. unavailable when one of them does not answer now.
Result<std::vector<const cluster::Node*>> targets_to_ask(const cluster::ClusterState& state,
                                                         const Answering& answering,
                                                         const std::string& pinned) {
  TRY(auto targets, targets_that_may_hold(state));
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

Task<Result<api::PackedPage>> ask_target(const Services& services, const cluster::Node& target,
                                         std::string path, ListSources& sources) {
  CO_TRY(std::string body, co_await ask_for_list(services, target, std::move(path), sources));
  auto page = api::decode_page(std::move(body));
  if (!page) co_return fail(Errc::internal, "target t[{}]: {}", target.id, page.error().message);
  co_return std::move(*page);
}

/// True if names that upstream has are to be listed beside those that the cluster has.
bool lists_upstream(const cluster::BucketRecord& bucket, const ListRequest& request) {
  return api::has_upstream(bucket.name) && !request.cached && request.target.empty();
}

/// List while no name moves: each target's objects are its own. conflict when a target acts on a
/// newer map.
Task<Result<api::MergedPage>> list_quiescent(const Services& services, const KnownBucket& bucket,
                                             const ListRequest& request, ListSources& sources) {
  const cluster::ClusterState& state = *bucket.state;
  CO_TRY(const auto targets, targets_to_ask(state, sources.answering, request.target));
  struct Source {
    const cluster::Node* target;
    std::string_view path;
  };
  std::vector<Source> all;
  all.reserve(targets.size() + 1);
  for (const cluster::Node* target : targets) all.push_back({target, kListPath});
  // The last one: of an object that the cluster has, its own entry counts.
  if (lists_upstream(*bucket.record, request)) {
    CO_TRY(const auto* target, target_for_upstream(state, sources.answering));
    all.push_back({target, kUpstreamListPath});
  }
  const auto path_for = [&](const Source& source, const std::string& after, std::size_t limit) {
    api::Query query = list_query(state, *bucket.record, request, after, limit);
    query.set("delimiter", request.recursive ? "" : "/");
    return std::string(source.path) + "?" + query.encode();
  };
  api::ListMerge merge(all.size(), request.limit, request.after);
  for (auto wanting = merge.wanting(); !wanting.empty(); wanting = merge.wanting()) {
    std::vector<Task<Result<api::PackedPage>>> calls;
    calls.reserve(wanting.size());
    for (const std::size_t i : wanting)
      calls.push_back(ask_target(services, *all[i].target,
                                 path_for(all[i], merge.after(i), merge.batch()), sources));
    auto pages = co_await gather(std::move(calls));
    for (std::size_t k = 0; k < wanting.size(); ++k) {
      CO_TRY(api::PackedPage page, std::move(pages[k]));
      const Status fed = merge.feed(wanting[k], std::move(page));
      if (!fed)
        co_return fail(Errc::internal, "target t[{}]: {}", all[wanting[k]].target->id,
                       fed.error().message);
    }
  }
  co_return merge.take();
}

/// Other replicas can list the names of a target that is away.
bool target_is_away(const Answering& answering, const KnownBucket& bucket) {
  if (!bucket.record->replica_count().many()) return false;
  const auto targets = bucket.state->map.placeable_targets();
  return std::any_of(targets.begin(), targets.end(),
                     [&](const auto* target) { return !answering.contains(target->id); });
}

/// A page of the names that upstream has, of any target that answers. It asks upstream several
/// times before it fails.
Task<Result<api::PackedPage>> upstream_page(const Services& services, const KnownBucket& bucket,
                                            const ListRequest& request) {
  ListSources sources;
  sources.answering.suspects = services.suspects.answering()->suspects;
  CO_TRY(const auto* target, target_for_upstream(*bucket.state, sources.answering));
  const api::Query query =
      list_query(*bucket.state, *bucket.record, request, request.after, request.limit);
  co_return co_await ask_target(services, *target,
                                std::string(kUpstreamListPath) + "?" + query.encode(), sources);
}

}  // namespace

Task<Result<UpstreamCount>> count_upstream(const Services& services, KnownBucket bucket,
                                           std::string prefix) {
  ListRequest request;
  request.prefix = std::move(prefix);
  UpstreamCount sum;
  for (bool more = true; more;) {
    CO_TRY(const api::PackedPage page, co_await upstream_page(services, bucket, request));
    for (const api::PackedEntry& each : page.entries) {
      CO_TRY(const api::ListEntry entry, api::unpack_entry(each.bytes));
      ++sum.objects;
      sum.bytes += entry.size;
    }
    more = page.more && !page.entries.empty();
    if (more) request.after = std::string(page.entries.back().name);
  }
  co_return sum;
}

Result<std::vector<const cluster::Node*>> targets_for_list(const cluster::ClusterState& state,
                                                           const Answering& answering,
                                                           const cluster::BucketRecord& bucket) {
  TRY(auto targets, targets_that_may_hold(state));
  std::string away;
  std::erase_if(targets, [&](const cluster::Node* target) {
    if (answering.contains(target->id)) return false;
    away = target->id;
    return true;
  });
  const cluster::ReplicaCount count = bucket.replica_count();
  // Targets that are no longer members are not waited for: objects that only they held are lost.
  const auto has_enough = [&](const cluster::NodeSet& nodes, const std::vector<std::string>& lost,
                              std::uint64_t version) {
    std::size_t silent = 0;
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      const std::string& id = nodes.id(i);
      if (!answering.contains(id) && state.map.find(id) != nullptr) ++silent;
    }
    if (silent == 0) return true;
    return !cluster::may_hold_all(nodes, count.at(version), [&](const std::string& id) {
      return !answering.contains(id) || std::find(lost.begin(), lost.end(), id) != lost.end();
    });
  };
  const cluster::Ownership map = cluster::ownership_of(state.map);
  const bool complete =
      has_enough(map.current, {}, map.version) &&
      std::all_of(map.past.begin(), map.past.end(), [&](const auto& set) {
        const auto kept_for = [&](const std::string& id) {
          return std::find(set.only_for.begin(), set.only_for.end(), id) != set.only_for.end();
        };
        const bool is_given = !set.only_for.empty() &&
                              !cluster::may_hold_all(set.nodes, count.at(set.last), kept_for);
        return is_given || has_enough(set.nodes, set.lost, set.last);
      });
  if (!complete)
    return fail(Errc::unavailable, "the list would be incomplete: target t[{}] does not answer now",
                away);
  return targets;
}

api::Query list_query(const cluster::ClusterState& state, const cluster::BucketRecord& bucket,
                      const ListRequest& request, const std::string& after, std::size_t limit) {
  api::Query query;
  query.set("bucket", std::to_string(raw(bucket.id)));
  query.set("bmd", std::to_string(state.bmd.version));
  query.set("map", std::to_string(state.map.version));
  query.set("prefix", request.prefix);
  query.set("after", after);
  query.set("limit", std::to_string(limit));
  query.set("props", api::to_text(request.fields));
  query.set("time_format", api::layout_of(request.time_format));
  return query;
}

Task<Result<std::string>> ask_for_list(const Services& services, const cluster::Node& target,
                                       std::string path, ListSources& sources) {
  // Without a lease our own answer is marked as stale, and a target without one will do.
  if (services.membership.lease().valid()) path += "&fresh=1";
  http::CallLimits limits = kListLimits;
  limits.is_silent = services.suspects.answering()->silence_of(target.id);
  auto answer = co_await call_node(services, target, http::Method::get, std::move(path), limits);
  if (!answer)
    co_return fail(Errc::unavailable, "the list would be incomplete: {}", answer.error().message);
  if (answer->status == 421)
    co_return fail(Errc::conflict, "target t[{}] acts on a newer map", target.id);
  if (answer->status == 404)
    co_return fail(Errc::bucket_not_found, "{}", api::error_message_of(answer->body));
  if (answer->status == 200) co_return std::move(answer->body);
  if (answer->status == 501 || answer->status == 502 || answer->status == 403)  // upstream's
    co_return fail(api::errc_of_answer(answer->status, answer->body), "{}",
                   api::error_message_of(answer->body));
  sources.unable.insert(target.id);
  co_return fail(Errc::unavailable, "the list would be incomplete: target t[{}]: {} ({})",
                 target.id, api::error_message_of(answer->body), answer->status);
}

Task<Result<api::MergedPage>> list_entries(const Services& services, KnownBucket bucket,
                                           const ListRequest& request) {
  const BucketId id = bucket.record->id;
  const api::Bucket name = bucket.record->name;
  std::optional<Error> incomplete;  // from a target that cannot list all that it has
  ListSources sources;
  const auto until = std::chrono::steady_clock::now() + kListPatience;
  while (std::chrono::steady_clock::now() < until) {
    const auto answering = services.suspects.answering();
    sources.answering.suspects = answering->suspects;
    sources.answering.suspects.insert(sources.unable.begin(), sources.unable.end());
    const auto unable = std::exchange(sources.unable, {});
    // Upstream has no generations, and an entry of the cluster's objects may be a moment late.
    const bool moving =
        request.target.empty() && !lists_upstream(*bucket.record, request) &&
        (!bucket.state->map.past.empty() || target_is_away(sources.answering, bucket));
    auto listed = moving ? list_while_moving(services, bucket, request, sources)
                         : list_quiescent(services, bucket, request, sources);
    auto page = co_await std::move(listed);
    if (page) {
      TARN_CHECK(page->entries.size() <= request.limit);
      // The caller goes on after the last name.
      TARN_CHECK(!page->more || !page->entries.empty());
      co_return std::move(*page);
    }
    const Errc code = page.error().code;
    if (code != Errc::conflict && code != Errc::bucket_not_found && code != Errc::unavailable)
      co_return fail(page.error());
    // A target with drives that are away: other replicas have the names that it cannot list.
    if (!sources.unable.empty() && bucket.record->replica_count().many()) {
      incomplete = page.error();
      sources.unable.insert(unable.begin(), unable.end());
      continue;
    }
    sources.unable.clear();  // these targets are asked again
    const auto known = bucket.state;
    if (code == Errc::unavailable) co_await pause(kPause);
    auto now = co_await services.view.fresh();
    if (!now) co_return fail(code == Errc::unavailable ? page.error() : now.error());
    bucket.state = std::move(*now);
    bucket.record = bucket.state->bmd.find(id);
    if (bucket.record == nullptr) co_return fail(bucket_not_found(name));
    // Targets that died just now, or left, are not asked again.
    const bool others_answer = services.suspects.answering()->suspects != answering->suspects;
    const bool is_news = others_answer || bucket.state->map.version != known->map.version;
    if (code == Errc::conflict && !is_news) co_await pause(kPause);
    if (code == Errc::bucket_not_found || (code == Errc::unavailable && !is_news))
      co_return fail(Errc::unavailable, "{}",
                     incomplete ? incomplete->message : page.error().message);
  }
  if (incomplete) co_return fail(*incomplete);
  co_return fail(Errc::unavailable, "the cluster map changed for {} s while the list was made",
                 kListPatience.count());
}

}  // namespace tarn::proxy
