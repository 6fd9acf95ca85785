#include "proxy/jobs/recode_job.h"

#include <utility>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "common/api/coding_props.h"
#include "common/obs/log.h"
#include "proxy/jobs/jobs.h"
#include "proxy/jobs/target_work.h"
#include "proxy/object/assign.h"

namespace tarn::proxy {
namespace {

using nlohmann::json;

std::string recode_job_about(const api::BucketProps& props) {
  const auto coding = api::coding_of(props);
  if (!coding) return "whole objects again";
  return fmt::format("data:{} parity:{} layout:{} above:{}", coding->k, coding->m,
                     coding->full_copy ? "whole" : "striped", coding->size_limit);
}

std::vector<std::string> recode_job_targets_of(const cluster::ClusterState& state) {
  std::vector<std::string> out;
  for (const auto& [id, node] : state.map.nodes)
    if (node.role == cluster::Role::target && (node.flags & cluster::kOut) == 0) out.push_back(id);
  return out;
}

Task<Status> have_all_recode(const Services& services, const Job& job) {
  const auto state = services.view.state();
  const json order = json::parse(job.order);
  if (state->bmd.find(BucketId{order.at("bucket").get<std::uint64_t>()}) == nullptr)
    co_return fail(Errc::bucket_not_found, "the bucket was destroyed meanwhile");
  TargetWork work{
      .path = "/v1/internal/recode", .order = order, .targets = recode_job_targets_of(*state)};
  const Status done = co_await work_on_targets(services, job, std::move(work));
  co_return done;
}

}  // namespace

Task<Result<std::string>> start_recode(const Services& services, api::Bucket name, bool changed) {
  CO_TRY(const KnownBucket bucket, co_await find_bucket(services, name));
  Job job;
  job.kind = "ec-encode";
  job.bucket = name;
  job.about = recode_job_about(bucket.record->props);
  job.order = json{{"bucket", raw(bucket.record->id)}, {"changed", changed}}.dump();
  for (const std::string& target : recode_job_targets_of(*bucket.state)) job.parts[target] = {};
  CO_TRY(const std::string id, co_await services.jobs.start(std::move(job)));
  obs::log("proxy").info("bucket is to be recoded job={} bucket={} as={}", id, name.display(),
                         recode_job_about(bucket.record->props));
  co_return id;
}

Task<Status> drive_recode(const Services& services, Job job) {
  CO_TRY_OK(co_await have_all_recode(services, job));
  // With another number of copies of each record, names are on their way. Objects that come to
  // their owner only then are to be recoded there.
  CO_TRY_OK(co_await wait_until_in_place(services, job.id));
  co_return co_await have_all_recode(services, job);
}

}  // namespace tarn::proxy
