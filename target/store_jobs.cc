#include "target/store_jobs.h"

#include <utility>

#include <nlohmann/json.hpp>

#include "common/api/bucket_copy.h"
#include "common/base/fail_point.h"
#include "common/base/gather.h"
#include "common/obs/log.h"
#include "target/job_stream.h"

namespace tarn::target {
namespace {

using nlohmann::json;

constexpr std::size_t kStoreJobsOrderBytesMax = 64U << 10U;

struct Order {
  std::string job;
  std::set<BucketId> buckets;
};

Result<Order> store_jobs_parse_order(const std::string& body) {
  try {
    const json in = json::parse(body);
    Order order{.job = in.at("job").get<std::string>(), .buckets = {}};
    for (const auto id : in.at("buckets").get<std::vector<std::uint64_t>>())
      order.buckets.insert(BucketId{id});
    return order;
  } catch (const json::exception& problem) {
    return fail(Errc::invalid_argument, "order of a job: {}", problem.what());
  }
}

/// A drive that has gone out meanwhile is left out the next time.
bool store_jobs_may_pass(Errc code) {
  return code == Errc::unavailable || code == Errc::timeout || code == Errc::cancelled;
}

/// One of these jobs under way, on the loop of its request: a function for each drive, at the same
/// time.
class StoreJob {
 public:
  using OfDrive = std::function<Task<Status>(Drive&, api::CopyProgress&, const std::stop_token&)>;
  StoreJob(TargetNode& node, std::string about, OfDrive of_drive, asio::any_io_executor executor)
      : node_(node),
        about_(std::move(about)),
        of_drive_(std::move(of_drive)),
        lines_(std::move(executor), [this] { return json(progress_).dump(); }),
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
      progress_.again = store_jobs_may_pass(end.error().code);
    }
    progress_.done = true;
    lines_.end();
    obs::log("target").info("{} ended objects={} bytes={} err={}", about_, progress_.objects,
                            progress_.bytes, progress_.error);
    co_return Status();
  }

 private:
  TargetNode& node_;
  const std::string about_;
  const OfDrive of_drive_;
  api::CopyProgress progress_;
  JobLines lines_;
  std::stop_token stop_;
};

Error told_to_stop() { return {Errc::cancelled, "the job was told to stop"}; }

Task<Status> clean_drive(Drive& drive, const CleanOrder& order, api::CopyProgress& progress,
                         const std::stop_token& stop) {
  CO_TRY(const KnownFiles known, co_await drive.known_files(order.dead));
  if (order.only.empty())
    for (const BucketId bucket : known.dead) drive.forget_bucket(bucket);
  for (const std::uint32_t directory : known.directories) {
    CO_FAIL_POINT("clean_up.directory");
    if (stop.stop_requested()) co_return fail(told_to_stop());
    CO_TRY(const Cleaned cleaned, co_await drive.clean(directory, known, order));
    progress.objects += cleaned.files;
    progress.bytes += cleaned.bytes;
  }
  co_return Status();
}

Task<Status> load_drive(Drive& drive, BucketId bucket, api::CopyProgress& progress,
                        const std::stop_token& stop) {
  Loaded loaded{.more = true, .next = ""};
  while (loaded.more) {
    if (stop.stop_requested()) co_return fail(told_to_stop());
    CO_TRY(loaded, co_await drive.load_index(bucket, loaded.next));
    progress.objects += loaded.objects;
    progress.bytes += loaded.bytes;
  }
  co_return Status();
}

}  // namespace

Task<Status> start_clean_up(TargetNode& node, http::Request& request) {
  CO_TRY(const std::string body, co_await request.exchange.read_all(kStoreJobsOrderBytesMax));
  CO_TRY(const Order order, store_jobs_parse_order(body));
  const CleanOrder what{.dead = node.view.state()->bmd.dead, .only = order.buckets};
  const auto clean = [&what](Drive& drive, api::CopyProgress& progress,
                             const std::stop_token& stop) {
    return clean_drive(drive, what, progress, stop);
  };
  StoreJob job(node, "clean-up job=" + order.job, clean, co_await asio::this_coro::executor);
  co_return co_await stream_job(node, request, order.job, job);
}

Task<Status> start_load_index(TargetNode& node, http::Request& request) {
  CO_TRY(const std::string body, co_await request.exchange.read_all(kStoreJobsOrderBytesMax));
  CO_TRY(const Order order, store_jobs_parse_order(body));
  if (order.buckets.size() != 1)
    co_return fail(Errc::invalid_argument, "the index is loaded of one bucket at a time");
  const auto load = [bucket = *order.buckets.begin()](Drive& drive, api::CopyProgress& progress,
                                                      const std::stop_token& stop) {
    return load_drive(drive, bucket, progress, stop);
  };
  StoreJob job(node, "index load job=" + order.job, load, co_await asio::this_coro::executor);
  co_return co_await stream_job(node, request, order.job, job);
}

}  // namespace tarn::target
