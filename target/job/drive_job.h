#pragma once

#include <functional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "common/api/bucket_copy.h"
#include "common/base/gather.h"
#include "common/obs/log.h"
#include "target/node/job_stream.h"

namespace tarn::target {

/// A streamed job (job_stream.h) of all drives in service at the same time: a function for each.
/// Of the loop of its request.
class DriveJob {
 public:
  /// Work on one drive, counted in `progress`, until it is done or asked to stop.
  using OfDrive =
      std::function<Task<Status>(Drive&, api::CopyProgress& progress, const std::stop_token&)>;
  /// `about`: the job's name in the log.
  DriveJob(TargetNode& node, std::string about, OfDrive of_drive,
           const asio::any_io_executor& executor)
      : node_(node),
        about_(std::move(about)),
        of_drive_(std::move(of_drive)),
        lines_(executor, [this] { return nlohmann::json(progress_).dump(); }),
        stop_(lines_.stop().get_token()) {}

  [[nodiscard]] JobLines& lines() { return lines_; }

  Task<Status> run() {
    const auto drives = node_.store.drives();
    std::vector<Task<Status>> parts;
    for (const auto& drive : drives)
      if (drive->in_service()) parts.push_back(of_drive_(*drive, progress_, stop_));
    const auto ends = co_await gather(std::move(parts));
    for (const Status& end : ends) {
      if (end || !progress_.error.empty()) continue;
      progress_.error = end.error().message;
      progress_.again = may_pass(end.error().code);
    }
    progress_.done = true;
    lines_.end();
    obs::log("target").info("{} ended objects={} bytes={} err={}", about_, progress_.objects,
                            progress_.bytes, progress_.error);
    co_return Status();
  }

 private:
  /// A drive that has gone out meanwhile is left out the next time.
  [[nodiscard]] static bool may_pass(Errc code) {
    return code == Errc::unavailable || code == Errc::timeout || code == Errc::cancelled;
  }

  TargetNode& node_;
  const std::string about_;
  const OfDrive of_drive_;
  api::CopyProgress progress_;
  JobLines lines_;
  std::stop_token stop_;
};

}  // namespace tarn::target
