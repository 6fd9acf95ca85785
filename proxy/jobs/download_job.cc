#include "proxy/jobs/download_job.h"

#include <algorithm>
#include <set>

#include <boost/asio/steady_timer.hpp>
#include <nlohmann/json.hpp>

#include "common/api/download_batch.h"
#include "common/api/status.h"
#include "common/base/check.h"
#include "common/base/gather.h"
#include "common/base/read_json.h"
#include "common/obs/log.h"
#include "proxy/jobs/download_state.h"
#include "proxy/jobs/job_patience.h"
#include "proxy/jobs/jobs.h"
#include "proxy/jobs/target_lines.h"
#include "proxy/list/list.h"
#include "proxy/watch/node_calls.h"

namespace tarn::proxy {
namespace {

using nlohmann::json;
using namespace std::chrono_literals;
using SteadyTime = std::chrono::steady_clock::time_point;

constexpr std::string_view kDownloadPath = "/v1/internal/download";
/// Objects that are handed out at once.
constexpr std::size_t kDownloadsMax = 16'384;
/// Shortest time between two notes of progress.
constexpr auto kShowEvery = 200ms;

using Items = std::vector<api::DownloadItem>;

/// One run of a job. All of it runs on one loop.
class DownloadRun {
 public:
  DownloadRun(const Services& services, std::string id, BucketId bucket,
              api::DownloadRequest request)
      : services_(services),
        id_(std::move(id)),
        bucket_(bucket),
        request_(std::move(request)),
        count_(request_.count()),
        patience_(services, id_) {
    state_.total = count_;
  }

  Task<Status> run();

 private:
  /// The part of one target.
  struct Share {
    const cluster::Node* target = nullptr;
    Items items;
    api::DownloadProgress progress;
  };
  using Shares = std::vector<Share>;
  Task<Result<Items>> next_items();
  Task<Result<Items>> next_page(std::size_t limit);
  Task<Status> work_off(Items items);
  Shares share_out(const cluster::ClusterState& state, Items items);
  Task<Status> send(std::shared_ptr<const cluster::ClusterState> state, Share& share);
  [[nodiscard]] std::string order_for(const cluster::ClusterState& state, const Share& share) const;
  Result<bool> take_line(Share& share, const std::string& line);
  Status settle(Share& share);
  void show(bool now);
  [[nodiscard]] bool should_stop() const { return services_.jobs.should_stop(id_); }

  const Services& services_;
  const std::string id_;
  const BucketId bucket_;
  const api::DownloadRequest request_;
  const std::optional<std::uint64_t> count_;
  std::uint64_t next_ = 0;  // of count_
  std::string after_;       // the last name of the pages so far
  bool listed_ = false;
  DownloadState state_;  // of the objects that are done
  std::map<std::string, JobPart> parts_;
  std::vector<Share*> running_;
  Items left_;  // of a round: to be sent again
  std::uint64_t handled_ = 0;
  std::string why_later_;
  JobPatience patience_;
  SteadyTime shown_{};
};

Task<Status> DownloadRun::run() {
  while (true) {
    if (should_stop()) co_return fail(Errc::cancelled, "told to stop");
    auto items = co_await next_items();
    if (!items) co_return fail(items.error());
    if (items->empty()) break;
    state_.scheduled += items->size();
    state_.all_dispatched = count_ ? next_ == *count_ : listed_;
    show(true);
    CO_TRY_OK(co_await work_off(std::move(*items)));
  }
  state_.all_dispatched = true;
  state_.total = state_.scheduled;
  show(true);
  co_return Status();
}

Task<Result<Items>> DownloadRun::next_items() {
  while (true) {
    const std::size_t targets = services_.view.state()->map.placeable_targets().size();
    const std::size_t limit =
        std::clamp<std::size_t>(targets * api::DownloadBatch::kItemsMax / 2, 1, kDownloadsMax);
    if (count_) {
      Items out;
      while (next_ < *count_ && out.size() < limit) out.push_back(request_.item(next_++));
      co_return out;
    }
    auto page = co_await next_page(limit);
    if (page) {
      patience_.worked();
      co_return page;
    }
    if (!JobPatience::may_pass(page.error().code)) co_return fail(page.error());
    CO_TRY_OK(co_await patience_.wait(page.error().message));
  }
}

/// Takes items from the next page of the bucket, with names that upstream has and those that the
/// cluster has.
Task<Result<Items>> DownloadRun::next_page(std::size_t limit) {
  Items out;
  while (out.empty() && !listed_) {
    KnownBucket bucket{services_.view.state(), nullptr};
    bucket.record = bucket.state->bmd.find(bucket_);
    if (bucket.record == nullptr)
      co_return fail(Errc::bucket_not_found, "the bucket was destroyed meanwhile");
    ListRequest list;
    list.prefix = request_.prefix;
    list.after = after_;
    list.limit = std::min(limit, ListRequest::kLimitMax);
    list.fields.size = false;
    CO_TRY(const api::MergedPage page, co_await list_entries(services_, bucket, list));
    for (const auto& entry : page.entries)
      if (!entry.name.ends_with('/') && entry.name.ends_with(request_.suffix))
        out.push_back({std::string(entry.name), ""});
    listed_ = !page.more || page.entries.empty();
    TARN_CHECK(page.entries.empty() || after_ < page.entries.back().name);
    if (!page.entries.empty()) after_ = page.entries.back().name;
  }
  co_return out;
}

/// Sends all of them until each is done.
Task<Status> DownloadRun::work_off(Items items) {
  while (!items.empty()) {
    if (should_stop()) co_return fail(Errc::cancelled, "told to stop");
    const bool ours = co_await services_.jobs.is_ours(id_);
    if (!ours) co_return fail(Errc::cancelled, "another proxy drives the job now");
    auto state = services_.view.state();
    if (state->bmd.find(bucket_) == nullptr) {
      CO_TRY(state, co_await services_.view.fresh());
    }
    if (state->bmd.find(bucket_) == nullptr)
      co_return fail(Errc::bucket_not_found, "the bucket was destroyed meanwhile");
    const std::uint64_t before = handled_;
    left_.clear();
    Shares shares = share_out(*state, std::move(items));
    std::vector<Task<Status>> sent;
    for (Share& share : shares) {
      running_.push_back(&share);
      sent.push_back(send(state, share));
    }
    const auto ends = co_await gather(std::move(sent));
    running_.clear();
    show(true);
    for (const Status& end : ends) CO_TRY_OK(end);
    items = std::move(left_);
    if (handled_ > before) {
      patience_.worked();
      continue;
    }
    const Status waited = co_await patience_.wait(why_later_);
    if (waited) continue;
    if (waited.error().code == Errc::cancelled) co_return waited;
    // The rest of the job is tried all the same, but not waited for again.
    patience_.shorten();
    for (api::DownloadItem& item : items) state_.add_error(std::move(item.name), why_later_);
    items.clear();
  }
  co_return Status();
}

/// The share of each owner, at most a batch; the rest is left.
DownloadRun::Shares DownloadRun::share_out(const cluster::ClusterState& state, Items items) {
  const auto* bucket = state.bmd.find(bucket_);
  TARN_CHECK(bucket != nullptr);
  std::size_t to_go = left_.size() + items.size();
  std::map<const cluster::Node*, Items> by_owner;
  for (api::DownloadItem& item : items) {
    const auto* owner = cluster::owner_of(state.map, bucket->placement_name(item.name));
    if (owner == nullptr) why_later_ = "no target of the cluster owns names now";
    const bool goes = owner != nullptr && by_owner[owner].size() < api::DownloadBatch::kItemsMax;
    (goes ? by_owner[owner] : left_).push_back(std::move(item));
  }
  Shares out;
  for (auto& [target, own] : by_owner) {
    TARN_CHECK(own.size() <= api::DownloadBatch::kItemsMax);
    to_go -= own.size();
    out.push_back({target, std::move(own), {}});
  }
  TARN_CHECK(to_go == left_.size());  // none is fetched twice, or never
  return out;
}

std::string DownloadRun::order_for(const cluster::ClusterState& state, const Share& share) const {
  api::DownloadBatch batch;
  batch.job = id_;
  batch.bucket = raw(bucket_);
  batch.bmd_version = state.bmd.version;
  batch.map_version = state.map.version;
  batch.terms = request_.terms;
  if (request_.terms.bytes_per_hour > 0) {
    const auto targets = std::max<std::uint64_t>(state.map.placeable_targets().size(), 1);
    batch.bytes_per_second =
        std::max<std::uint64_t>(request_.terms.bytes_per_hour / (3600 * targets), 1);
  }
  batch.items = share.items;
  return json(batch).dump();
}

Result<bool> DownloadRun::take_line(Share& share, const std::string& line) {
  TRY(share.progress, parse_json<api::DownloadProgress>(
                          line, Errc::internal, fmt::format("target t[{}]", share.target->id)));
  show(false);
  return share.progress.done;
}

/// Has one target, of `state`, do its share. Errors only for faults that end the job.
Task<Status> DownloadRun::send(std::shared_ptr<const cluster::ClusterState> state, Share& share) {
  const cluster::Node& target = *share.target;
  const TargetJob order{std::string(kDownloadPath), id_, order_for(*state, share)};
  const auto take = [&](const std::string& line) { return take_line(share, line); };
  const Status done =
      co_await follow_lines(services_, target, order, take, [this] { return should_stop(); });
  CO_TRY_OK(settle(share));
  if (done) {
    if (share.progress.map_version > services_.view.state()->map.version)
      static_cast<void>(co_await services_.view.at_least(share.progress.map_version, 0));
    co_return Status();
  }
  const Errc code = done.error().code;
  // The target has not noticed yet that the last batch has lost its proxy.
  const bool runs_another = api::http_status(code) == 409;
  if (!JobPatience::may_pass(code) && !runs_another)
    co_return fail(code, "target t[{}]: {}", target.id, done.error().message);
  why_later_ = fmt::format("target t[{}]: {}", target.id, done.error().message);
  if (runs_another) {
    const std::string path = fmt::format("{}?job={}", kDownloadPath, id_);
    static_cast<void>(co_await call_node(services_, target, http::Method::del, path));
  }
  co_return Status();
}

/// Counts the items of a share that have ended, also when its target went away since; the rest is
/// left.
Status DownloadRun::settle(Share& share) {
  const api::DownloadProgress progress = std::exchange(share.progress, {});
  share.progress.map_version = progress.map_version;
  std::set<std::uint32_t> settled;
  JobPart& part = parts_[share.target->id];
  for (const auto& each : progress.finished) {
    settled.insert(each.item);
    ++state_.finished;
    ++part.objects;
    part.bytes += each.bytes;
    state_.add_ended(
        {share.items.at(each.item).name, each.bytes, each.bytes, each.started_ns, each.ended_ns});
  }
  for (const std::uint32_t each : progress.skipped) {
    settled.insert(each);
    ++state_.finished;
    ++state_.skipped;
  }
  for (const auto& [item, why] : progress.failed) {
    settled.insert(item);
    state_.add_error(share.items.at(item).name, why);
  }
  handled_ += settled.size();
  for (std::uint32_t i = 0; i < share.items.size(); ++i)
    if (!settled.contains(i)) left_.push_back(share.items[i]);
  if (!progress.later.empty()) why_later_ = progress.why_later;
  if (progress.error.empty()) return {};
  if (should_stop()) return fail(Errc::cancelled, "told to stop");
  return fail(Errc::io, "target t[{}]: {}", share.target->id, progress.error);
}

/// Notes the progress in the job, with that of shares under way.
void DownloadRun::show(bool now) {
  if (!now && std::chrono::steady_clock::now() - shown_ < kShowEvery) return;
  shown_ = std::chrono::steady_clock::now();
  DownloadState state = state_;
  auto parts = parts_;
  for (const Share* share : running_) {
    JobPart& part = parts[share->target->id];
    const auto& progress = share->progress;
    state.finished += progress.finished.size() + progress.skipped.size();
    state.skipped += progress.skipped.size();
    part.objects += progress.finished.size();
    for (const auto& each : progress.finished) {
      part.bytes += each.bytes;
      state.add_ended({share->items.at(each.item).name, each.bytes, each.bytes, each.started_ns,
                       each.ended_ns});
    }
    for (const auto& [item, why] : progress.failed)
      state.add_error(share->items.at(item).name, why);
    for (const auto& each : progress.current) {
      part.bytes += each.bytes;
      state.current.push_back(
          {share->items.at(each.item).name, each.bytes, each.total, each.started_ns, 0});
    }
  }
  services_.jobs.update(id_, [&](Job& job) {
    job.results = {state.encode()};
    for (const auto& [target, part] : parts) {
      api::CopyProgress progress;
      progress.objects = part.objects;
      progress.bytes = part.bytes;
      take_progress(job, target, progress, 0);
    }
  });
}

}  // namespace

Task<Status> drive_download(const Services& services, Job job) {
  const json order = json::parse(job.order);
  CO_TRY(api::DownloadRequest request, api::parse_download(order.at("value")));
  DownloadRun run(services, job.id, BucketId{order.at("bucket").get<std::uint64_t>()},
                  std::move(request));
  Status done = co_await run.run();
  obs::log("proxy").info("download {} job={} err={}", done ? "done" : "failed", job.id,
                         done ? "" : done.error().message);
  co_return done;
}

}  // namespace tarn::proxy
