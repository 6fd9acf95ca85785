#include "proxy/job_queries.h"

#include <algorithm>

#include <fmt/chrono.h>
#include <nlohmann/json.hpp>

#include "common/base/encoding.h"
#include "proxy/job_kinds.h"

namespace tarn::proxy {
namespace {

using nlohmann::json;

bool is_about(const Job& job, const std::vector<api::Bucket>& buckets) {
  return std::any_of(buckets.begin(), buckets.end(),
                     [&](const api::Bucket& each) { return job.bucket == each || job.to == each; });
}

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

/// Of the whole job: AIStore's clients show it beside the numbers of each target.
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

/// Takes "bck" or "buckets". AIStore's clients send an empty name or null for none.
Status take_buckets(const std::string& key, const json& value, JobQuery& out) {
  if (value.is_array()) {
    for (const json& each : value) TRY_OK(take_buckets(key, each, out));
    return {};
  }
  if (value.is_null()) return {};
  try {
    auto bucket = value.get<api::Bucket>();
    TRY(bucket.provider, api::canonical_provider(bucket.provider));
    if (!bucket.name.empty()) out.buckets.push_back(std::move(bucket));
    return {};
  } catch (const json::exception&) {
    return fail(Errc::invalid_argument, "\"{}\" of the body names no bucket", key);
  }
}

}  // namespace

bool matches(const Job& job, const JobQuery& query) {
  if (!query.id.empty() && job.id != query.id) return false;
  if (!query.kind.empty() && job.kind != query.kind) return false;
  if (!query.node.empty() && !job.parts.contains(query.node)) return false;
  if (!query.buckets.empty() && !is_about(job, query.buckets)) return false;
  return !query.only_running || job.is_running();
}

std::string name_of(const JobQuery& query) {
  return "x-" + query.kind + (query.id.empty() ? "" : "[" + query.id + "]") +
         (query.only_running ? "-only-running" : "");
}

Result<JobQuery> parse_job_query(const std::string& body) {
  if (trim(body).empty()) return JobQuery();
  return job_query_from(json::parse(body, nullptr, false));
}

Result<JobQuery> job_query_from(const json& message) {
  JobQuery out;
  if (message.is_null()) return out;
  if (!message.is_object())
    return fail(Errc::invalid_argument,
                "the body is no JSON object such as {{\"kind\":\"summary\"}}");
  for (const auto& [name, value] : message.items()) {
    const std::string key = to_lower(name);
    if (value.is_null()) continue;
    if (key == "show_active" || key == "force") {
      if (!value.is_boolean())
        return fail(Errc::invalid_argument, "\"{}\" of the body is neither true nor false", name);
      (key == "force" ? out.force : out.only_running) = value.get<bool>();
      continue;
    }
    if (key == "bck" || key == "buckets") {
      TRY_OK(take_buckets(name, value, out));
      continue;
    }
    std::string* text = key == "id"                          ? &out.id
                        : key == "kind"                      ? &out.kind
                        : key == "node" || key == "daemonid" ? &out.node
                                                             : nullptr;
    if (text == nullptr) continue;
    if (!value.is_string())
      return fail(Errc::invalid_argument, "\"{}\" of the body is no string", name);
    *text = value.get<std::string>();
  }
  out.kind = kind_of(out.kind);
  return out;
}

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
