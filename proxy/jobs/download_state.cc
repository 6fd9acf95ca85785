#include "proxy/jobs/download_state.h"

#include <nlohmann/json.hpp>

#include "common/api/list_fields.h"
#include "common/base/read_json.h"

namespace tarn::proxy {
namespace {

using nlohmann::json;

json row_of(const DownloadState::Object& object) {
  return {object.name, object.bytes, object.total, object.started_ns, object.ended_ns};
}

DownloadState::Object object_from(const json& row) {
  return {row.at(0).get<std::string>(), row.at(1).get<std::uint64_t>(),
          row.at(2).get<std::uint64_t>(), row.at(3).get<std::int64_t>(),
          row.at(4).get<std::int64_t>()};
}

DownloadState state_from(const json& in) {
  DownloadState out;
  in.at("finished").get_to(out.finished);
  in.at("skipped").get_to(out.skipped);
  in.at("failed").get_to(out.failed);
  in.at("scheduled").get_to(out.scheduled);
  if (in.contains("total")) out.total = in.at("total").get<std::uint64_t>();
  in.at("all_dispatched").get_to(out.all_dispatched);
  for (const json& row : in.at("current")) out.current.push_back(object_from(row));
  for (const json& row : in.at("ended")) out.ended.push_back(object_from(row));
  in.at("errors").get_to(out.errors);
  return out;
}

/// RFC 3339 with nanoseconds; Go's zero time for 0.
std::string download_time(std::int64_t wall_ns) {
  if (wall_ns == 0) return "0001-01-01T00:00:00Z";
  return api::format_time(wall_ns, api::TimeFormat::rfc3339_nano);
}

/// AIStore writes these numbers as strings.
json task_of(const DownloadState::Object& object) {
  return {{"name", object.name},
          {"downloaded", std::to_string(object.bytes)},
          {"total", std::to_string(object.total)},
          {"start_time", download_time(object.started_ns)},
          {"end_time", download_time(object.ended_ns)},
          {"running", object.ended_ns == 0}};
}

json summary_of(const Job& job, const DownloadState& state) {
  return {{"id", job.id},
          {"xaction_id", job.id},
          {"description", job.about},
          {"started_time", download_time(job.started_ns)},
          {"finished_time", download_time(job.ended_ns)},
          {"finished_cnt", state.finished},
          {"scheduled_cnt", state.scheduled},
          {"skipped_cnt", state.skipped},
          {"error_cnt", state.failed},
          {"total", state.total ? json(*state.total) : json(-1)},
          {"all_dispatched", state.all_dispatched},
          {"aborted", job.aborted},
          {"error", job.error}};
}

}  // namespace

void DownloadState::add_ended(Object object) {
  ended.push_back(std::move(object));
  if (ended.size() > kEndedMax) ended.pop_front();
}

void DownloadState::add_error(std::string name, std::string why) {
  ++failed;
  if (errors.size() < kErrorsMax) errors.emplace_back(std::move(name), std::move(why));
}

std::string DownloadState::encode() const {
  json now = json::array();
  for (const Object& each : current) {
    if (now.size() == kCurrentMax) break;
    now.push_back(row_of(each));
  }
  json last = json::array();
  for (const Object& each : ended) last.push_back(row_of(each));
  json out{{"finished", finished},     {"skipped", skipped},
           {"failed", failed},         {"scheduled", scheduled},
           {"errors", errors},         {"all_dispatched", all_dispatched},
           {"ended", std::move(last)}, {"current", std::move(now)}};
  if (total) out["total"] = *total;
  return out.dump(-1, ' ', false, json::error_handler_t::replace);
}

DownloadState DownloadState::of(const Job& job) {
  if (job.results.empty()) return {};
  return read_json(Errc::corrupt, "state of a download",
                   [&] { return state_from(json::parse(job.results.front())); })
      .value_or(DownloadState());
}

json download_summary(const Job& job) { return summary_of(job, DownloadState::of(job)); }

json download_status(const Job& job, bool with_ended) {
  const DownloadState state = DownloadState::of(job);
  json out = summary_of(job, state);
  json current = json::array();
  if (job.is_running())
    for (const auto& each : state.current) current.push_back(task_of(each));
  out["current_tasks"] = std::move(current);
  if (!with_ended) return out;
  json ended = json::array();
  for (const auto& each : state.ended) ended.push_back(task_of(each));
  json errors = json::array();
  for (const auto& [name, why] : state.errors) errors.push_back({{"name", name}, {"error", why}});
  out["finished_tasks"] = std::move(ended);
  out["download_errors"] = std::move(errors);
  return out;
}

}  // namespace tarn::proxy
