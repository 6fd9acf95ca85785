// Reports and jobs of the scrubs of a target's drives.

#include <nlohmann/json.hpp>

#include "common/api/bucket_copy.h"
#include "common/base/pause.h"
#include "common/obs/log.h"
#include "target/node/job_stream.h"
#include "target/repair/drive_scrub.h"

namespace tarn::target {
namespace {

using nlohmann::json;

constexpr std::size_t kScrubJobOrderBytesMax = 4U << 10U;
constexpr std::chrono::milliseconds kScrubJobLookEvery{200};

json scrub_job_json_of(const ScrubFinding& finding, const cluster::ClusterState& state) {
  const auto* bucket = state.bmd.find(finding.key.bucket);
  return {{"bucket", bucket == nullptr ? "" : bucket->name.display()},
          {"object", finding.key.name},
          {"piece", finding.slice ? json(finding.key.index) : json()},
          {"file", finding.file.path()},
          {"found_ns", finding.found_ns},
          {"ended_ns", finding.ended_ns},
          {"outcome", to_string(finding.outcome)},
          {"error", finding.error}};
}

json scrub_job_json_of(const ScrubState& its, std::int64_t now_ns,
                       const cluster::ClusterState& state) {
  json found = json::array();
  for (const ScrubFinding& finding : its.found) found.push_back(scrub_job_json_of(finding, state));
  json seconds;
  const std::uint64_t left = its.whole > its.cost ? its.whole - its.cost : 0;
  if (its.runs() && its.cost > 0) {
    // Time left by the mean since it began, which includes pauses.
    const double passed = static_cast<double>(now_ns - its.began_ns) / 1e9;
    seconds = passed / static_cast<double>(its.cost) * static_cast<double>(left);
  }
  const double share =
      its.whole == 0 ? 1 : static_cast<double>(its.cost) / static_cast<double>(its.whole);
  return {{"running", its.runs()},
          {"job", its.job},
          {"at_bucket", its.at.bucket},
          {"began_ns", its.began_ns},
          {"first_ns", its.first_ns},
          {"ended_ns", its.ended_ns},
          {"verified_ns", its.verified_ns},
          {"files", its.files},
          {"bytes", its.bytes},
          {"bad", its.bad},
          {"bad_ever", its.bad_ever},
          {"share", std::min(1.0, share)},
          {"seconds_left", std::move(seconds)},
          {"found", std::move(found)}};
}

/// A target's part of a scrub that is asked for.
class ScrubJob {
 public:
  ScrubJob(TargetNode& node, std::string id, const asio::any_io_executor& executor)
      : node_(node),
        id_(std::move(id)),
        lines_(executor, [this] { return json(progress_).dump(); }) {}

  [[nodiscard]] JobLines& lines() { return lines_; }

  Task<Status> run() {
    const auto drives = node_.store.drives();
    for (const auto& drive : drives)
      if (drive->in_service()) drives_.push_back(drive);
    for (const auto& drive : drives_) node_.scrub.of(drive->path())->want(id_);
    const auto stop = lines_.stop().get_token();
    while (!look() && !stop.stop_requested()) {
      co_await pause(kScrubJobLookEvery);
    }
    for (const auto& drive : drives_) node_.scrub.of(drive->path())->let_go(id_);
    if (stop.stop_requested()) progress_.error = "the job was told to stop";
    progress_.done = true;
    lines_.end();
    obs::log("scrub").info("ended job={} files={} bytes={} bad={} err={}", id_, progress_.objects,
                           progress_.bytes, progress_.failed, progress_.error);
    co_return Status();
  }

 private:
  /// True: all drives have been read, or cannot be.
  bool look() {
    bool all = true;
    progress_.objects = progress_.bytes = progress_.failed = 0;
    progress_.error.clear();
    for (const auto& drive : drives_) {
      const auto board = node_.scrub.of(drive->path());
      const ScrubState state = board->state();
      const bool begun = state.job == id_;
      if (begun) {
        progress_.objects += state.files;
        progress_.bytes += state.bytes;
        progress_.failed += state.bad;
      }
      if (begun && !state.runs()) continue;
      if (drive->in_service() && node_.store.drive_at(drive->path()) == drive) {
        all = false;
        continue;
      }
      progress_.error = "drive " + drive->path() + " went out of service";
    }
    return all;
  }

  TargetNode& node_;
  const std::string id_;
  std::vector<std::shared_ptr<Drive>> drives_;
  api::CopyProgress progress_;
  JobLines lines_;
};

}  // namespace

Task<Status> tell_scrub(TargetNode& node, http::Request& request) {
  json drives = json::object();
  const auto state = node.view.state();
  for (const auto& drive : node.store.drives()) {
    const auto board = node.scrub.of(drive->path());
    json its = scrub_job_json_of(board->state(), node.clock.wall_time().count(), *state);
    its["known"] = board->known();
    its["rate"] = board->rate.load();
    drives[drive->path()] = std::move(its);
  }
  const json out{{"drives", std::move(drives)}};
  co_return co_await request.exchange.respond(
      http::Response(200, http::kJson, out.dump(-1, ' ', false, json::error_handler_t::replace)));
}

Task<Status> start_scrub(TargetNode& node, http::Request& request) {
  CO_TRY(const std::string body, co_await request.exchange.read_all(kScrubJobOrderBytesMax));
  CO_TRY(const std::string id, job_in(body));
  ScrubJob job(node, id, co_await asio::this_coro::executor);
  co_return co_await stream_job(node, request, id, job);
}

void export_scrubs(obs::Metrics& metrics, TargetNode& node) {
  metrics.before_scrape([&metrics, &node] {
    for (const auto& drive : node.store.drives()) {
      const auto board = node.scrub.of(drive->path());
      if (!board->known()) continue;
      const ScrubState its = board->state();
      const std::int64_t since = its.verified_ns != 0 ? its.verified_ns : its.first_ns;
      const double age =
          since == 0 ? 0 : static_cast<double>(node.clock.wall_time().count() - since) / 1e9;
      const auto set = [&](const char* name, const char* help, double value) {
        metrics.gauge(name, help, {{"drive", drive->path()}}).Set(value);
      };
      set("tarn_drive_verified_age_seconds",
          "all that is older has been read and compared since; before the first scrub has ended, "
          "how long ago that began",
          age);
      set("tarn_drive_scrub_bad_files", "files that scrubs ever found bad",
          static_cast<double>(its.bad_ever));
      set("tarn_drive_scrubbed_bytes", "what the present scrub, or the last one, has read",
          static_cast<double>(its.bytes));
    }
  });
}

}  // namespace tarn::target
