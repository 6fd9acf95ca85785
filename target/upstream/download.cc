// A target's part in a download: the objects of one batch, which the proxy that runs the job took
// for ours. Each is fetched as download_object.h documents. Those that cannot be stored now, such
// as one that has got another owner, go back to the proxy.

#include "target/upstream/download.h"

#include <map>

#include <nlohmann/json.hpp>

#include "common/api/download_batch.h"
#include "common/base/check.h"
#include "common/base/gather.h"
#include "common/base/read_json.h"
#include "common/obs/log.h"
#include "target/node/job_stream.h"
#include "target/node/node.h"

namespace tarn::target {
namespace {

using nlohmann::json;

constexpr std::size_t kDownloadOrderBytesMax = 4U << 20U;
constexpr std::size_t kDownloadCheckBytesMax = 1U << 20U;
/// Objects at a time where the client does not set the number. Large ones come over several
/// connections each.
constexpr std::size_t kDownloadsAtOnce = 8;
constexpr std::size_t kWhyBytesMax = 500;

/// One batch under way. All of it runs on the loop of its request, so nothing is locked.
class DownloadRun {
 public:
  DownloadRun(TargetNode& node, Upstream& upstream, DownloadCounts& counts,
              api::DownloadBatch batch, const asio::any_io_executor& executor)
      : node_(node),
        upstream_(upstream),
        counts_(counts),
        batch_(std::move(batch)),
        map_version_(node.view.state()->map.version),
        lines_(executor, [this] { return line(); }),
        stop_(lines_.stop().get_token()) {
    rate_.set(batch_.bytes_per_second);
  }

  [[nodiscard]] JobLines& lines() { return lines_; }
  Task<Status> run();

 private:
  struct Running {
    DownloadTransfer transfer;
    std::int64_t started_ns = 0;
  };
  Task<Status> take(std::uint32_t index);
  Task<Status> handle(std::uint32_t index);
  void note_later(std::uint32_t index, std::string why);
  [[nodiscard]] std::int64_t now() const { return node_.clock.wall_time().count(); }
  [[nodiscard]] std::string line();

  TargetNode& node_;
  Upstream& upstream_;
  DownloadCounts& counts_;
  const api::DownloadBatch batch_;
  const std::uint64_t map_version_;
  RateLimiter rate_;
  api::DownloadProgress progress_;
  std::map<std::uint32_t, Running> running_;
  JobLines lines_;
  std::stop_token stop_;
};

Task<Status> DownloadRun::run() {
  std::size_t workers = batch_.terms.connections;
  if (workers == 0) workers = kDownloadsAtOnce;
  const auto take_next = [this](std::size_t i) { return take(static_cast<std::uint32_t>(i)); };
  const Status end = co_await gather_at_most(workers, batch_.items.size(), take_next);
  if (!end) progress_.error = end.error().message;
  // Each object is reported once: what no list has would be neither stored nor tried again.
  TARN_CHECK(!end || progress_.finished.size() + progress_.skipped.size() +
                             progress_.failed.size() + progress_.later.size() ==
                         batch_.items.size());
  progress_.done = true;
  progress_.map_version = node_.view.state()->map.version;
  lines_.end();
  obs::log("target").debug(
      "download batch ended job={} items={} stored={} skipped={} failed={} later={} why={} err={}",
      batch_.job, batch_.items.size(), progress_.finished.size(), progress_.skipped.size(),
      progress_.failed.size(), progress_.later.size(), progress_.why_later, progress_.error);
  co_return Status();
}

Task<Status> DownloadRun::take(std::uint32_t index) {
  if (stop_.stop_requested()) co_return fail(Errc::cancelled, "told to stop");
  const Status done = co_await handle(index);
  running_.erase(index);
  co_return done;
}

void DownloadRun::note_later(std::uint32_t index, std::string why) {
  progress_.later.push_back(index);
  progress_.why_later = std::move(why);
}

Task<Status> DownloadRun::handle(std::uint32_t index) {
  if (node_.view.state()->map.version != map_version_) {
    note_later(index, "the cluster map has changed");
    co_return Status();
  }
  Running& running = running_[index];
  running.started_ns = now();
  const DownloadRules rules{batch_.terms, rate_, stop_};
  auto ended = co_await download_object(node_, upstream_, counts_, BucketId(batch_.bucket),
                                        batch_.items[index], rules, running.transfer);
  if (!ended) co_return fail(ended.error());
  switch (ended->outcome) {
    case DownloadEnd::Outcome::stored:
      progress_.finished.push_back({index, ended->bytes, running.started_ns, now()});
      break;
    case DownloadEnd::Outcome::skipped: progress_.skipped.push_back(index); break;
    case DownloadEnd::Outcome::failed:
      progress_.failed.emplace_back(index, ended->why.substr(0, kWhyBytesMax));
      break;
    case DownloadEnd::Outcome::later: note_later(index, std::move(ended->why)); break;
  }
  co_return Status();
}

std::string DownloadRun::line() {
  progress_.current.clear();
  for (const auto& [index, running] : running_)
    progress_.current.push_back(
        {index, running.transfer.bytes, running.transfer.total, running.started_ns});
  return json(progress_).dump(-1, ' ', false, json::error_handler_t::replace);
}

Result<api::DownloadBatch> parse_download_order(const std::string& body) {
  TRY(auto batch,
      parse_json<api::DownloadBatch>(body, Errc::invalid_argument, "order of a download"));
  if (batch.items.size() <= api::DownloadBatch::kItemsMax) return batch;
  return fail(Errc::invalid_argument, "a batch of {} objects: at most {}", batch.items.size(),
              api::DownloadBatch::kItemsMax);
}

Task<Status> take_downloads(TargetNode& node, Upstream& upstream, DownloadCounts& counts,
                            http::Request& request) {
  CO_TRY(const std::string body, co_await request.exchange.read_all(kDownloadOrderBytesMax));
  CO_TRY(api::DownloadBatch batch, parse_download_order(body));
  CO_TRY_OK(co_await node.view.at_least(batch.map_version, batch.bmd_version));
  std::string id = batch.job;
  DownloadRun run(node, upstream, counts, std::move(batch), co_await asio::this_coro::executor);
  co_return co_await stream_job(node, request, std::move(id), run);
}

/// Success for a link whose server this target may ask.
Status check_link_allowed(const Upstream& upstream, const std::string& text) {
  TRY(const UpstreamName name, upstream_name_of_link(text, {}));
  if (name.link.empty()) {
    TRY_OK(upstream.server_of(name));
    return {};
  }
  TRY(const http::Url url, http::parse_http_or_https(name.link));
  TRY_OK(upstream.servers().server_of_link(url));
  return {};
}

Task<Status> check_links(Upstream& upstream, http::Request& request) {
  CO_TRY(const std::string body, co_await request.exchange.read_all(kDownloadCheckBytesMax));
  CO_TRY(const auto links, read_json(Errc::invalid_argument, "check of links", [&] {
           return json::parse(body).at("links").get<std::vector<std::string>>();
         }));
  for (const std::string& link : links) CO_TRY_OK(check_link_allowed(upstream, link));
  http::Response done(200);
  co_return co_await request.exchange.respond(std::move(done));
}

}  // namespace

std::vector<http::Route> download_routes(TargetNode& node, Upstream& upstream,
                                         DownloadCounts& counts) {
  return {{"POST", "/v1/internal/download", "fetch objects of a download; a line on progress",
           [&](http::Request& request) { return take_downloads(node, upstream, counts, request); }},
          {"DELETE", "/v1/internal/download", "stop that",
           [&node](http::Request& request) { return stop_job(node, request); }},
          {"POST", "/v1/internal/download/check", "whether the servers of links may be asked",
           [&upstream](http::Request& request) { return check_links(upstream, request); }}};
}

void export_downloads(obs::Metrics& metrics, DownloadCounts& counts) {
  struct Row {
    prometheus::Counter& counter;
    const std::atomic<std::uint64_t>& count;
  };
  const std::vector<Row> rows{
      {metrics.counter("tarn_download_objects_total", "objects that downloads have stored"),
       counts.stored},
      {metrics.counter("tarn_download_bytes_total", "bytes that downloads have received"),
       counts.bytes},
      {metrics.counter("tarn_download_skipped_total",
                       "objects of downloads that were there already in the same version"),
       counts.skipped},
      {metrics.counter("tarn_download_failed_total",
                       "objects of downloads that could not be fetched"),
       counts.failed},
      {metrics.counter("tarn_download_retries_total",
                       "tries of downloads after the first one of an object"),
       counts.again}};
  metrics.before_scrape([rows] {
    for (const Row& row : rows)
      row.counter.Increment(static_cast<double>(row.count.load()) - row.counter.Value());
  });
}

}  // namespace tarn::target
