#include "proxy/admin/job_answers.h"

#include <algorithm>

#include <fmt/chrono.h>
#include <nlohmann/json.hpp>

namespace tarn::proxy {
namespace {

using nlohmann::json;

/// RFC 3339 with nanoseconds, as Go writes times; its zero time for 0.
std::string go_time(std::int64_t wall_ns) {
  if (wall_ns == 0) return "0001-01-01T00:00:00Z";
  const auto seconds = static_cast<std::time_t>(wall_ns / 1'000'000'000);
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:09}Z", fmt::gmtime(seconds), wall_ns % 1'000'000'000);
}

json status_json(const Job& job) {
  return {{"kind", job.kind},         {"uuid", job.id},         {"err", job.error},
          {"end_time", job.ended_ns}, {"aborted", job.aborted}, {"is_idle", !job.is_running()}};
}

json bucket_json(const std::optional<api::Bucket>& bucket) {
  if (bucket) return *bucket;
  return {{"name", ""}, {"provider", ""}, {"namespace", {{"uuid", ""}, {"name", ""}}}};
}

/// Counts of the whole job: AIStore's clients show it beside the numbers of each target.
json extra_json(const Job& job) {
  if (!job.seconds_left) return nullptr;
  return {{"seconds_left", *job.seconds_left}};
}

json snap_json(const Job& job, const JobPart& part) {
  return {{"ext", extra_json(job)},
          {"start-time", go_time(job.started_ns)},
          {"end-time", go_time(part.ended_ns)},
          {"bck", bucket_json(job.to ? job.to : job.bucket)},
          {"src-bck", bucket_json(job.to ? job.bucket : std::nullopt)},
          {"dst-bck", bucket_json(job.to)},
          {"id", job.id},
          {"kind", job.kind},
          {"ctlmsg", job.about},
          {"abort-err", job.abort_reason},
          {"err", job.error},
          {"glob.id", "0"},
          {"stats",
           {{"loc-objs", std::to_string(part.objects)},
            {"loc-bytes", std::to_string(part.bytes)},
            {"out-objs", std::to_string(part.out.objects)},
            {"out-bytes", std::to_string(part.out.bytes)},
            {"in-objs", std::to_string(part.in.objects)},
            {"in-bytes", std::to_string(part.in.bytes)}}},
          {"aborted", job.aborted},
          {"is_idle", part.ended_ns != 0}};
}

}  // namespace

Result<json> job_status(const std::vector<Job>& jobs, const JobQuery& query) {
  if (query.id.empty() && query.kind.empty())
    return fail(Errc::invalid_argument, "what=status needs the id or the kind of a job");
  const auto found =
      std::find_if(jobs.rbegin(), jobs.rend(), [&](const Job& job) { return matches(job, query); });
  if (found == jobs.rend()) return fail(Errc::not_found, "{} does not exist", name_of(query));
  return status_json(*found);
}

json job_status_all(const std::vector<Job>& jobs, const JobQuery& query) {
  json out = json::array();
  for (const Job& job : jobs)
    if (matches(job, query)) out.push_back(status_json(job));
  return out;
}

json running_jobs(const std::vector<Job>& jobs, const JobQuery& query) {
  json out = json::array();
  for (const Job& job : jobs)
    if (job.is_running() && matches(job, query)) out.push_back(job.kind + "[" + job.id + "]");
  return out;
}

Result<json> job_snaps(const std::vector<Job>& jobs, const JobQuery& query,
                       const std::vector<std::string>& targets) {
  json out = json::object();
  for (const std::string& target : targets)
    if (query.node.empty() || query.node == target) out[target] = json::array();
  bool known = false;
  for (const Job& job : jobs) {
    if (!matches(job, query)) continue;
    known = true;
    for (const auto& [target, part] : job.parts)
      if (out.contains(target)) out[target].push_back(snap_json(job, part));
  }
  if (!known && !query.id.empty()) return fail(Errc::not_found, "\"{}\" not found", name_of(query));
  return out;
}

}  // namespace tarn::proxy
