#include "target/job/store_jobs.h"

#include <utility>

#include <nlohmann/json.hpp>

#include "common/base/fail_point.h"
#include "common/base/read_json.h"
#include "target/job/drive_job.h"

namespace tarn::target {
namespace {

using nlohmann::json;

constexpr std::size_t kStoreJobsOrderBytesMax = 64U << 10U;

struct Order {
  std::string job;
  std::set<BucketId> buckets;
};

Result<Order> store_jobs_parse_order(const std::string& body) {
  return read_json(Errc::invalid_argument, "order of a job", [&]() -> Result<Order> {
    const json in = json::parse(body);
    Order order{.job = in.at("job").get<std::string>(), .buckets = {}};
    for (const auto id : in.at("buckets").get<std::vector<std::uint64_t>>())
      order.buckets.insert(BucketId{id});
    return order;
  });
}

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
  DriveJob job(node, "clean-up job=" + order.job, clean, co_await asio::this_coro::executor);
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
  DriveJob job(node, "index load job=" + order.job, load, co_await asio::this_coro::executor);
  co_return co_await stream_job(node, request, order.job, job);
}

}  // namespace tarn::target
