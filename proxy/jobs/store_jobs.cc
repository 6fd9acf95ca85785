#include "proxy/jobs/store_jobs.h"

#include <algorithm>
#include <utility>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "common/api/upstream_props.h"
#include "proxy/jobs/jobs.h"
#include "proxy/jobs/target_work.h"
#include "proxy/object/assign.h"

namespace tarn::proxy {
namespace {

using nlohmann::json;

constexpr std::string_view kStoreJobsEvict = "lru";
constexpr std::string_view kCleanUp = "cleanup-store";
constexpr std::string_view kLoad = "load-lom-cache";

std::string store_jobs_about(const std::string& kind, const std::vector<api::Bucket>& buckets) {
  if (kind == kStoreJobsEvict)
    return fmt::format("{} of {} buckets have an upstream, of others nothing is evicted",
                       std::count_if(buckets.begin(), buckets.end(), api::has_upstream),
                       buckets.size());
  if (kind == kLoad) return fmt::format("records of {}", buckets.front().display());
  return buckets.empty() ? "files without a record"
                         : fmt::format("files without a record, of {} buckets", buckets.size());
}

/// The targets that do the work, when they are asked: `node` alone, or all that are up.
std::vector<std::string> store_jobs_targets_of(const cluster::ClusterState& state,
                                               const std::string& node) {
  std::vector<std::string> out;
  for (const auto& [id, each] : state.map.nodes)
    if (each.role == cluster::Role::target && (node.empty() ? state.live.contains(id) : id == node))
      out.push_back(id);
  return out;
}

Status check_node(const cluster::ClusterState& state, const std::string& id) {
  if (id.empty()) return {};
  const cluster::Node* node = state.map.find(id);
  if (node == nullptr || node->role != cluster::Role::target)
    return fail(Errc::invalid_argument, "'{}' is no target: it has no drives", id);
  if (state.live.contains(id)) return {};
  return fail(Errc::unavailable, "target t[{}] is away", id);
}

Task<Status> work(const Services& services, const Job& job, std::string path) {
  const json order = json::parse(job.order);
  const auto state = services.view.state();
  TargetWork work{
      .path = std::move(path),
      .order = {{"buckets", order.at("buckets")}, {"force", order.value("force", false)}}};
  work.targets = store_jobs_targets_of(*state, order.at("node").get<std::string>());
  const Status end = co_await work_on_targets(services, job, std::move(work));
  co_return end;
}

}  // namespace

bool is_store_job(const std::string& kind) {
  return kind == kStoreJobsEvict || kind == kCleanUp || kind == kLoad;
}

Task<Result<std::string>> start_store_job(const Services& services, JobQuery query) {
  if (query.kind == kLoad && query.buckets.size() != 1)
    co_return fail(Errc::invalid_argument, "{} is of one bucket: name it as \"Bck\"", kLoad);
  json ids = json::array();
  for (const api::Bucket& bucket : query.buckets) {
    CO_TRY(const KnownBucket known, co_await find_bucket(services, bucket));
    ids.push_back(raw(known.record->id));
  }
  const auto state = services.view.state();
  CO_TRY_OK(check_node(*state, query.node));
  Job job;
  job.kind = query.kind;
  if (query.buckets.size() == 1) job.bucket = query.buckets.front();
  if (query.kind == kStoreJobsEvict && query.buckets.empty())
    for (const auto& [name, record] : state->bmd.buckets) query.buckets.push_back(name);
  job.about = store_jobs_about(query.kind, query.buckets);
  job.order =
      json{{"buckets", std::move(ids)}, {"node", query.node}, {"force", query.force}}.dump();
  for (const std::string& target : store_jobs_targets_of(*state, query.node))
    job.parts[target] = {};
  co_return co_await services.jobs.start(std::move(job));
}

Task<Status> drive_eviction(const Services& services, Job job) {
  co_return co_await work(services, job, "/v1/internal/evict");
}

Task<Status> drive_clean_up(const Services& services, Job job) {
  co_return co_await work(services, job, "/v1/internal/clean-up");
}

Task<Status> drive_load_index(const Services& services, Job job) {
  co_return co_await work(services, job, "/v1/internal/load-index");
}

}  // namespace tarn::proxy
