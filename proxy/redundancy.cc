#include "proxy/redundancy.h"

#include <algorithm>
#include <map>
#include <set>

#include <nlohmann/json.hpp>

#include "common/api/copy_counts.h"
#include "common/api/mirror_props.h"
#include "common/api/status.h"
#include "common/base/gather.h"
#include "proxy/assign.h"
#include "proxy/list.h"
#include "proxy/target_counts.h"

namespace tarn::proxy {
namespace {

using nlohmann::json;

constexpr std::size_t kPageNames = 1000;
constexpr std::string_view kRecordsPath = "/v1/internal/list-moving?";

/// What has been heard of the copies of one name.
struct Copies {
  Generation newest;
  bool live = false;
  std::uint64_t nodes = 0;  ///< that have the newest version
};

/// A page of one target's records; the name behind which it has not said all.
Result<std::optional<std::string>> take_records(const std::string& target, const std::string& body,
                                                std::map<std::string, Copies>& into) {
  try {
    const json in = json::from_msgpack(body);
    for (const json& record : in.at("records")) {
      const json& numbers = record.at(1);
      const Generation generation{numbers.at(0), numbers.at(1), numbers.at(2)};
      Copies& copies = into[record.at(0).get<std::string>()];
      if (copies.nodes > 0 && generation < copies.newest) continue;
      if (copies.newest < generation) copies.nodes = 0;
      copies.newest = generation;
      copies.live = !record.at(2).get_binary().empty();
      ++copies.nodes;
    }
    if (!in.at("more").get<bool>()) return std::optional<std::string>();
    return std::optional(in.at("last").get<std::string>());
  } catch (const json::exception& problem) {
    return fail(Errc::internal, "target t[{}]: {}", target, problem.what());
  }
}

/// Ids of the targets that do not answer; what lies there is not counted.
using Away = std::set<std::string>;

Nodes targets_but(const cluster::ClusterState& state, const Away& away) {
  Nodes out;
  for (const auto& [id, node] : state.map.nodes)
    if (node.role == cluster::Role::target && !away.contains(id)) out.push_back(&node);
  return out;
}

Away silent_targets(const Services& services, const cluster::ClusterState& state) {
  const auto answering = services.suspects.answering();
  Away away;
  for (const cluster::Node* target : targets_but(state, {}))
    if (!answering->contains(target->id)) away.insert(target->id);
  return away;
}

/// Notes in `away` whose answer is that it cannot now. The first of all other errors.
template <class T>
Status sort_out(const Nodes& targets, const std::vector<Result<T>>& answers, Away& away) {
  for (std::size_t i = 0; i < answers.size(); ++i) {
    if (answers[i]) continue;
    if (answers[i].error().code != Errc::unavailable) return fail(answers[i].error());
    away.insert(targets[i]->id);
  }
  return {};
}

/// Copies on nodes: the records of all targets but those in `away`, compared by name. Nothing when
/// one more went away meanwhile.
Task<Result<std::optional<api::CopyCounts>>> count_on_nodes(const Services& services,
                                                            const cluster::ClusterState& state,
                                                            const cluster::BucketRecord& bucket,
                                                            std::uint64_t wanted, Away& away) {
  const Nodes targets = targets_but(state, away);
  const ListRequest request;
  api::CopyCounts counts;
  std::string after;
  while (true) {
    std::vector<Task<Result<std::string>>> calls;
    api::Query query = list_query(state, bucket, request, after, kPageNames);
    query.set("own", "all");
    for (const cluster::Node* target : targets)
      calls.push_back(ask_for_list(services, *target, std::string(kRecordsPath) + query.encode()));
    const auto answers = co_await gather(std::move(calls));
    const std::size_t before = away.size();
    CO_TRY_OK(sort_out(targets, answers, away));
    if (away.size() > before) co_return std::nullopt;
    std::map<std::string, Copies> names;
    std::optional<std::string> bound;  // behind it somebody has not said all
    for (std::size_t i = 0; i < answers.size(); ++i) {
      CO_TRY(const auto last, take_records(targets[i]->id, *answers[i], names));
      if (last && (!bound || *last < *bound)) bound = last;
    }
    for (const auto& [name, copies] : names)
      if (copies.live && (!bound || name <= *bound)) counts.add(copies.nodes, wanted);
    if (!bound) co_return std::optional(counts);
    after = *bound;
  }
}

/// Copies on drives: each target counts its own.
Task<Result<api::CopyCounts>> count_on_drives(const Services& services,
                                              const cluster::ClusterState& state,
                                              const cluster::BucketRecord& bucket, Away& away) {
  api::Query query;
  query.set("bucket", std::to_string(raw(bucket.id)));
  query.set("bmd", std::to_string(state.bmd.version));
  const std::string path = "/v1/internal/redundancy?" + query.encode();
  const Nodes targets = targets_but(state, away);
  std::vector<Task<Result<api::CopyCounts>>> calls;
  for (const cluster::Node* target : targets)
    calls.push_back(ask_counts<api::CopyCounts>(services, *target, path));
  const auto counts = co_await gather(std::move(calls));
  CO_TRY_OK(sort_out(targets, counts, away));
  api::CopyCounts sum;
  for (const auto& each : counts)
    if (each) sum.add(*each);
  co_return sum;
}

Task<Result<json>> count_bucket(const Services& services, const cluster::ClusterState& state,
                                const cluster::BucketRecord& bucket) {
  const bool on_nodes = bucket.pieces().many();
  const int wanted =
      std::max<int>(1, on_nodes ? api::node_copies_of(bucket.props) : api::copies_of(bucket.props));
  Away away = silent_targets(services, state);
  std::optional<api::CopyCounts> counts;
  while (!counts && on_nodes) {
    CO_TRY(counts, co_await count_on_nodes(services, state, bucket,
                                           static_cast<std::uint64_t>(wanted), away));
  }
  if (!counts) {
    CO_TRY(counts, co_await count_on_drives(services, state, bucket, away));
  }
  json out = *counts;
  out["name"] = bucket.name.name;
  out["provider"] = bucket.name.provider;
  out["copies"] = wanted;
  out["targets_away"] = away;
  out["complete"] = away.empty() && counts->drives_away == 0;
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
  const bool complete = std::all_of(buckets.begin(), buckets.end(),
                                    [](const json& each) { return each["complete"].get<bool>(); });
  const json out{{"buckets", std::move(buckets)}, {"complete", complete}};
  co_return http::Response(200, http::kJson, out.dump() + "\n");
}

}  // namespace tarn::proxy
