#include "proxy/jobs/job.h"

#include <nlohmann/json.hpp>

#include "common/base/check.h"
#include "common/base/read_json.h"

namespace tarn::proxy {
namespace {

using nlohmann::json;

/// A row of numbers: with a thousand targets the names of fields would be most of a record.
json part_json(const JobPart& part) {
  return {part.objects,   part.bytes,      part.ended_ns, part.out.objects,
          part.out.bytes, part.in.objects, part.in.bytes};
}

JobPart part_from(const json& in) {
  JobPart part;
  in.at(0).get_to(part.objects);
  in.at(1).get_to(part.bytes);
  in.at(2).get_to(part.ended_ns);
  in.at(3).get_to(part.out.objects);
  in.at(4).get_to(part.out.bytes);
  in.at(5).get_to(part.in.objects);
  in.at(6).get_to(part.in.bytes);
  return part;
}

Job job_from(const json& in) {
  Job job;
  in.at("id").get_to(job.id);
  in.at("kind").get_to(job.kind);
  in.at("about").get_to(job.about);
  in.at("order").get_to(job.order);
  in.at("driver").get_to(job.driver.proxy);
  in.at("incarnation").get_to(job.driver.incarnation);
  in.at("runs").get_to(job.runs);
  in.at("started").get_to(job.started_ns);
  in.at("ended").get_to(job.ended_ns);
  in.at("error").get_to(job.error);
  in.at("stop_asked").get_to(job.stop_asked);
  in.at("aborted").get_to(job.aborted);
  in.at("abort_reason").get_to(job.abort_reason);
  in.at("results").get_to(job.results);
  for (const auto& [target, part] : in.at("parts").items()) job.parts[target] = part_from(part);
  if (in.contains("bucket")) job.bucket = in.at("bucket").get<api::Bucket>();
  if (in.contains("to")) job.to = in.at("to").get<api::Bucket>();
  if (in.contains("seconds_left")) job.seconds_left = in.at("seconds_left").get<double>();
  return job;
}

}  // namespace

std::string_view to_string(JobState state) {
  switch (state) {
    case JobState::pending: return "pending";
    case JobState::running: return "running";
    case JobState::stopping: return "stopping";
    case JobState::done: return "done";
    case JobState::aborted: return "aborted";
    case JobState::failed: return "failed";
  }
  return "?";
}

JobState state_of(const Job& job) {
  if (job.ended_ns != 0)
    return job.aborted ? JobState::aborted : !job.error.empty() ? JobState::failed : JobState::done;
  if (job.stop_asked) return JobState::stopping;
  return job.driver.proxy.empty() ? JobState::pending : JobState::running;
}

bool take(Job& job, const JobDriver& driver) {
  if (!job.is_running() || driver.proxy.empty()) return false;
  job.driver = driver;
  ++job.runs;
  for (auto& [target, part] : job.parts) part = {};
  job.results.clear();
  job.seconds_left.reset();
  return true;
}

bool ask_to_stop(Job& job) {
  if (!job.is_running() || job.stop_asked) return false;
  job.stop_asked = true;
  return true;
}

bool end(Job& job, const Status& result, std::int64_t now_ns) {
  if (!job.is_running() || job.driver.proxy.empty()) return false;
  TARN_CHECK(now_ns != 0);  // 0 means that it runs
  job.ended_ns = now_ns;
  job.seconds_left.reset();
  if (!result) {
    job.aborted = job.stop_asked || result.error().code == Errc::cancelled;
    (job.aborted ? job.abort_reason : job.error) = result.error().message;
    if (job.stop_asked) job.abort_reason = "stopped by a user";
    if (!job.aborted && job.error.empty()) job.error = "it failed and did not say why";
  }
  for (auto& [target, part] : job.parts)
    if (part.ended_ns == 0) part.ended_ns = now_ns;
  return true;
}

void take_progress(Job& job, const std::string& target, const api::CopyProgress& progress,
                   std::int64_t ended_ns) {
  JobPart& part = job.parts[target];
  part.objects = progress.objects;
  part.bytes = progress.bytes;
  part.ended_ns = ended_ns;
  // Its earlier counts are taken back: a target that begins again reports less.
  for (const auto& [to, before] : part.sent) {
    JobPart& other = job.parts[to];
    other.in.objects -= before.objects;
    other.in.bytes -= before.bytes;
  }
  part.out = {};
  for (const auto& [to, now] : progress.sent) {
    part.out.objects += now.objects;
    part.out.bytes += now.bytes;
    JobPart& other = job.parts[to];
    other.in.objects += now.objects;
    other.in.bytes += now.bytes;
  }
  part.sent = progress.sent;
}

std::string encode(const Job& job) {
  json parts = json::object();
  for (const auto& [target, part] : job.parts) parts[target] = part_json(part);
  json out{{"id", job.id},
           {"kind", job.kind},
           {"about", job.about},
           {"order", job.order},
           {"driver", job.driver.proxy},
           {"incarnation", job.driver.incarnation},
           {"runs", job.runs},
           {"started", job.started_ns},
           {"ended", job.ended_ns},
           {"error", job.error},
           {"stop_asked", job.stop_asked},
           {"aborted", job.aborted},
           {"abort_reason", job.abort_reason},
           {"parts", std::move(parts)},
           {"results", job.results}};
  if (job.bucket) out["bucket"] = *job.bucket;
  if (job.to) out["to"] = *job.to;
  if (job.seconds_left) out["seconds_left"] = *job.seconds_left;
  return out.dump(-1, ' ', false, json::error_handler_t::replace);
}

Result<Job> decode_job(std::string_view text) {
  return read_json(Errc::corrupt, "a job's record", [&] { return job_from(json::parse(text)); });
}

}  // namespace tarn::proxy
