#include "cli/tools/job_progress.h"

#include <nlohmann/json.hpp>

#include "common/base/encoding.h"
#include "common/base/pause.h"
#include "common/base/read_json.h"

namespace tarn::cli {
namespace {

using nlohmann::json;

Task<Result<json>> job_progress_ask(Session& session, std::string what, json question) {
  const std::string path = "/v1/cluster?what=" + what;
  const std::string body = question.dump();
  CO_TRY(const auto answer, co_await session.call(http::Method::get, path, body));
  json out = json::parse(answer.body, nullptr, false);
  if (out.is_discarded()) co_return fail(Errc::io, "the answer about jobs is no JSON");
  co_return out;
}

JobStatus status_from(const json& in) {
  return {in.at("uuid").get<std::string>(), in.at("kind").get<std::string>(),
          in.at("err").get<std::string>(), in.at("aborted").get<bool>(),
          in.at("end_time").get<std::int64_t>()};
}

std::uint64_t number_in(const json& stats, const char* key) {
  return parse_u64(stats.at(key).get<std::string>()).value_or(0);
}

/// Reads the answer to what=qryxstats: {"<target>":[snap]}.
void take_snaps(const json& answer, JobDetails& out) {
  for (const auto& [target, snaps] : answer.items())
    for (const auto& snap : snaps) {
      const json& stats = snap.at("stats");
      out.targets.push_back({target, number_in(stats, "loc-objs"), number_in(stats, "loc-bytes"),
                             snap.at("is_idle").get<bool>()});
      out.sum.objects += out.targets.back().objects;
      out.sum.bytes += out.targets.back().bytes;
      snap.at("ctlmsg").get_to(out.about);
      snap.at("start-time").get_to(out.started);
      snap.at("abort-err").get_to(out.abort_reason);
      const json& extra = snap.at("ext");
      if (extra.is_object() && extra.contains("seconds_left"))
        out.seconds_left = extra.at("seconds_left").get<double>();
    }
}

constexpr const char* kAnswer = "the answer about jobs cannot be read";

}  // namespace

std::string JobStatus::state() const {
  if (ended_ns == 0) return "running";
  if (aborted) return "aborted";
  return error.empty() ? "done" : "failed";
}

std::string JobDetails::complaint() const {
  if (status.aborted) return abort_reason.empty() ? "it was stopped" : abort_reason;
  return status.error;
}

Task<Result<std::vector<JobStatus>>> list_jobs(Session& session, std::string kind, bool ended) {
  CO_TRY(const json answer, co_await job_progress_ask(session, "status_all",
                                                      {{"kind", kind}, {"show_active", !ended}}));
  std::vector<JobStatus> out;
  CO_TRY_OK(read_json(Errc::io, kAnswer, [&] {
    for (const json& each : answer) out.push_back(status_from(each));
  }));
  co_return out;
}

/// Its state is asked for first: the reports of its targets are no older then.
Task<Result<JobDetails>> job_details(Session& session, std::string id) {
  CO_TRY(const json status, co_await job_progress_ask(session, "status", {{"id", id}}));
  CO_TRY(const json snaps, co_await job_progress_ask(session, "qryxstats", {{"id", id}}));
  JobDetails out;
  CO_TRY_OK(read_json(Errc::io, kAnswer, [&] {
    out.status = status_from(status);
    take_snaps(snaps, out);
  }));
  out.sum.ended = out.status.ended_ns != 0;
  co_return out;
}

Task<Result<JobDetails>> wait_for_job(Session& session, std::string id, Meter* meter,
                                      std::optional<std::chrono::steady_clock::time_point> until) {
  constexpr std::chrono::milliseconds kPollMax{500};
  for (std::chrono::milliseconds wait{20};; wait = std::min(wait * 2, kPollMax)) {
    CO_TRY(const JobDetails job, co_await job_details(session, id));
    if (meter != nullptr) meter->at(job.sum.bytes);
    if (job.status.ended_ns != 0) co_return job;
    if (until && std::chrono::steady_clock::now() + wait > *until)
      co_return fail(Errc::timeout, "job {} has not ended yet: {} objects, {} bytes are done", id,
                     job.sum.objects, job.sum.bytes);
    co_await pause(wait);
  }
}

}  // namespace tarn::cli
