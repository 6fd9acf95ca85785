#include "target/repair/keep_recoded.h"

#include <chrono>
#include <utility>

#include <nlohmann/json.hpp>

#include "common/api/bucket_copy.h"
#include "common/api/coding_props.h"
#include "common/base/event.h"
#include "common/base/gather.h"
#include "common/base/pause.h"
#include "common/base/read_json.h"
#include "common/obs/log.h"
#include "target/commit/recode.h"
#include "target/drive/record_pages.h"
#include "target/node/job_stream.h"

namespace tarn::target {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using SteadyClock = std::chrono::steady_clock;

constexpr auto kKeepRecodedLookEvery = 500ms;
constexpr std::chrono::seconds kKeepRecodedAgainFirst{2};
constexpr std::chrono::seconds kKeepRecodedAgainMost{60};
constexpr std::size_t kKeepRecodedAtOnce = 4;
/// Records that one visit to a drive's thread looks at, and names that it brings.
constexpr PageSize kKeepRecodedPage{.records = 50'000, .items = 256};
constexpr std::size_t kKeepRecodedOrderBytesMax = 4096;

spdlog::logger& recode_log() { return obs::log("recode"); }

/// Map version and bucket properties by which a walk goes: when they change, it begins again.
struct Basis {
  std::uint64_t map = 0;
  api::BucketProps props;
  bool operator==(const Basis&) const = default;
};
std::optional<Basis> basis_of(const TargetNode& node, BucketId bucket) {
  const auto state = node.view.state();
  const auto* record = state->bmd.find(bucket);
  if (record == nullptr || record->ending) return std::nullopt;
  return Basis{state->map.version, record->props};
}

/// Objects that a walk could not store as their bucket wants them.
struct Left {
  std::size_t count = 0;
  std::string first;  ///< the name of one
  Error why{Errc::conflict, "it is being written"};

  void add(std::string name, Error its_why) {
    if (count++ > 0) return;
    first = std::move(name);
    why = std::move(its_why);
  }
};

/// cancelled where the walk is stopped, or `basis` is no longer what it goes by.
Task<Status> recode_or_leave(TargetNode& node, ObjectName name, const Basis& basis,
                             std::stop_token stop, Left& left) {
  if (stop.stop_requested()) co_return fail(Errc::cancelled, "it was told to stop");
  if (basis_of(node, name.bucket) != basis)
    co_return fail(Errc::cancelled, "the map or the bucket has changed");
  std::string object = name.object;
  const auto done = co_await recode_patiently(node, std::move(name));
  if (!done) left.add(std::move(object), done.error());
  co_return Status();
}

/// Everything of one drive. True: nothing was left undone.
Task<Result<bool>> recode_drive(TargetNode& node, Drive& drive, BucketId bucket, const Basis& basis,
                                std::stop_token stop, Left& left) {
  const std::size_t left_before = left.count;
  const auto state = node.view.state();
  const auto* record = state->bmd.find(bucket);
  if (record == nullptr) co_return true;
  // Names that this target owns, of objects that are kept otherwise than the bucket wants.
  const auto kept_otherwise = [&](std::string_view object, const io::ObjectRecord& its,
                                  std::vector<ObjectName>& names) {
    if (!is_kept_otherwise(record->props, its)) return;
    ObjectName name = name_in(*record, std::string(object));
    const auto digest = cluster::placement_digest(name.uname);
    if (cluster::writer_of(*state->ownership->map, digest) == node.id)
      names.push_back(std::move(name));
  };
  RecordPages<ObjectName> pages(drive, bucket, kept_otherwise, kKeepRecodedPage);
  while (pages.more()) {
    CO_TRY(auto names, co_await pages.next());
    const auto recode = [&](std::size_t i) {
      return recode_or_leave(node, std::move(names[i]), basis, stop, left);
    };
    const Status ended = co_await gather_at_most(kKeepRecodedAtOnce, names.size(), recode);
    if (!ended && !stop.stop_requested()) co_return false;
    CO_TRY_OK(ended);
  }
  co_return left.count == left_before;
}

/// All that this target owns of a bucket. True: nothing was left undone, by one map and the same
/// properties.
Task<Result<bool>> recode_bucket(TargetNode& node, BucketId bucket, std::stop_token stop,
                                 Left& left) {
  const auto basis = basis_of(node, bucket);
  if (!basis) co_return true;
  const auto owned = node.owned.state();
  if (!node.membership.lease().valid() || owned->map->version != basis->map ||
      owned->settled < basis->map)
    co_return false;
  bool all = true;
  for (const auto& drive : node.store.drives()) {
    if (!drive->in_service()) continue;
    CO_TRY(const bool done, co_await recode_drive(node, *drive, bucket, *basis, stop, left));
    all = all && done;
  }
  co_return all&& basis_of(node, bucket) == basis;
}

RecodeCounts::Coding coding_now(const TargetNode& node, BucketId bucket) {
  const auto basis = basis_of(node, bucket);
  return basis ? api::coding_of(basis->props) : std::nullopt;
}

/// A bucket's job here.
class RecodeJob {
 public:
  RecodeJob(TargetNode& node, BucketId bucket, bool changed, const asio::any_io_executor& executor)
      : node_(node),
        bucket_(bucket),
        coding_(coding_now(node, bucket)),
        begun_(changed ? RecodeCounts::Count() : node.recoded.of(bucket, coding_)),
        lines_(executor, [this] { return line(); }) {}

  [[nodiscard]] JobLines& lines() { return lines_; }

  Task<Status> run() {
    const std::stop_token stop = lines_.stop().get_token();
    while (!stop.stop_requested()) {
      const std::uint64_t before = count().objects;
      Left left;
      const auto done = co_await recode_bucket(node_, bucket_, stop, left);
      if (!done && done.error().code != Errc::cancelled) progress_.error = done.error().message;
      if (!done || *done) break;
      // The proxy asks again, for as long as a job may get no further (job.patience).
      if (left.count > 0 && count().objects == before) {
        progress_.error =
            fmt::format("{} of the objects cannot be kept as the bucket wants, such as {}: {}",
                        left.count, left.first, left.why.message);
        break;
      }
      co_await pause_until(next_tick(kKeepRecodedLookEvery));
    }
    if (stop.stop_requested()) progress_.error = "the job was told to stop";
    progress_.again = !progress_.error.empty();
    progress_.done = true;
    lines_.end();
    co_return Status();
  }

 private:
  [[nodiscard]] RecodeCounts::Count count() const { return node_.recoded.of(bucket_, coding_); }

  std::string line() {
    const auto now = count();
    progress_.objects = now.objects - begun_.objects;
    progress_.bytes = now.bytes - begun_.bytes;
    return json(progress_).dump();
  }

  TargetNode& node_;
  const BucketId bucket_;
  const RecodeCounts::Coding coding_;
  const RecodeCounts::Count begun_;
  api::CopyProgress progress_;
  JobLines lines_;
};

/// The buckets some of whose objects may be kept otherwise, and how they shall be.
std::map<BucketId, std::optional<api::CodingProps>> codings(const cluster::ClusterState& state) {
  std::map<BucketId, std::optional<api::CodingProps>> out;
  for (const auto& [name, bucket] : state.bmd.buckets)
    if (api::was_ever_coded(bucket.props)) out[bucket.id] = api::coding_of(bucket.props);
  return out;
}

}  // namespace

Task<void> keep_recoded(TargetNode& node) {
  std::map<BucketId, std::optional<api::CodingProps>> done;
  std::uint64_t done_by = 0;  // the map
  auto due = SteadyClock::time_point::max();
  std::chrono::seconds again = kKeepRecodedAgainFirst;
  while (true) {
    co_await pause_until(next_tick(kKeepRecodedLookEvery));
    const auto state = node.owned.state();
    if (!node.membership.lease().valid() || state->settled < state->map->version) continue;
    const auto wanted = codings(*node.view.state());
    if (wanted == done && state->map->version == done_by && SteadyClock::now() < due) continue;
    if (wanted != done) again = kKeepRecodedAgainFirst;
    done = wanted;
    done_by = state->map->version;
    bool all = true;
    for (const auto& [bucket, coding] : wanted) {
      Left left;
      const auto recoded = co_await recode_bucket(node, bucket, {}, left);
      if (!recoded) recode_log().warn("bucket not looked through err={}", recoded.error().message);
      all = all && recoded && *recoded;
    }
    due = all ? SteadyClock::time_point::max() : SteadyClock::now() + again;
    again = all ? kKeepRecodedAgainFirst : std::min(again * 2, kKeepRecodedAgainMost);
  }
}

Task<Status> start_recode(TargetNode& node, http::Request& request) {
  CO_TRY(const std::string body, co_await request.exchange.read_all(kKeepRecodedOrderBytesMax));
  std::string id;
  BucketId bucket{};
  bool changed = false;
  CO_TRY_OK(read_json(Errc::invalid_argument, "order of a job", [&] {
    const json in = json::parse(body);
    in.at("job").get_to(id);
    bucket = BucketId{in.at("bucket").get<std::uint64_t>()};
    in.at("changed").get_to(changed);
  }));
  RecodeJob job(node, bucket, changed, co_await asio::this_coro::executor);
  co_return co_await stream_job(node, request, id, job);
}

}  // namespace tarn::target
