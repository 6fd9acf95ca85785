#include "proxy/jobs/rebalance_job.h"

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include <nlohmann/json.hpp>

#include "common/api/move_progress.h"
#include "common/base/encoding.h"
#include "common/base/gather.h"
#include "common/base/hash.h"
#include "common/base/mutex.h"
#include "common/base/pause.h"
#include "common/base/read_json.h"
#include "common/base/resume.h"
#include "common/cluster/place/hand_over.h"
#include "common/cluster/state/member_change.h"
#include "common/obs/log.h"
#include "proxy/core/leads.h"
#include "proxy/jobs/jobs.h"
#include "proxy/list/list.h"
#include "proxy/watch/node_calls.h"

namespace tarn::proxy {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;

constexpr const char* kRebalanceJobKind = "rebalance";
constexpr auto kRebalanceJobLookEvery = 500ms;
constexpr http::CallLimits kRebalanceJobLimits{.total = 2s};

/// Report of a target about the names that it moves to their targets.
struct Report {
  bool known = false;
  std::uint64_t map_version = 0;
  std::string state;            ///< "in_place", "waiting", "walking" or "held"
  std::int64_t started_ns = 0;  ///< of its present walk, or the last
  api::CopyProgress walk;
};

Task<Report> rebalance_job_ask(const Services& services, const cluster::Node& target) {
  const auto answer = co_await call_node(services, target, http::Method::get,
                                         "/v1/internal/rebalance", kRebalanceJobLimits);
  Report out;
  if (!answer || answer->status != 200) co_return out;
  const Status read = read_json(Errc::internal, "its report", [&] {
    const json in = json::parse(answer->body);
    in.at("map").get_to(out.map_version);
    in.at("state").get_to(out.state);
    in.at("started_ns").get_to(out.started_ns);
    in.at("walk").get_to(out.walk);
    out.known = true;
  });
  if (!read) obs::log("proxy").warn("rebalance node={} err={}", target.id, read.error().message);
  co_return out;
}

/// Progress of one target in all its walks for this rebalance.
struct Walks {
  std::int64_t started_ns = 0;  // of the one that `now` is about
  api::CopyProgress before;     // of walks that ended
  api::CopyProgress now;

  static void add(api::CopyProgress& sum, const api::CopyProgress& walk) {
    sum.objects += walk.objects;
    sum.bytes += walk.bytes;
    for (const auto& [to, sent] : walk.sent) {
      sum.sent[to].objects += sent.objects;
      sum.sent[to].bytes += sent.bytes;
    }
  }
  void take(const Report& report) {
    if (report.started_ns != started_ns) add(before, std::exchange(now, {}));
    started_ns = report.started_ns;
    now = report.walk;
  }
  [[nodiscard]] api::CopyProgress sum() const {
    api::CopyProgress out = before;
    add(out, now);
    return out;
  }
};

/// One rebalance as it is watched.
class RebalanceJobWatched {
 public:
  /// `version`: of the map that began it.
  RebalanceJobWatched(const Services& services, Job job, std::uint64_t version)
      : services_(services), job_(std::move(job)), version_(version) {}

  /// True if it has ended, as far as that does not depend on the targets' reports.
  using End = std::function<Result<bool>(const cluster::ClusterState& state)>;
  /// Waits until all names are in place by the reports of the targets, and `end` returns true.
  Task<Status> follow(End end);

 private:
  Task<void> look(const cluster::ClusterState& state);

  const Services& services_;
  const Job job_;
  const std::uint64_t version_;
  std::map<std::string, Walks> walks_;
  bool all_in_place_ = false;  // by the targets' reports
  bool held_ = false;
};

Task<void> RebalanceJobWatched::look(const cluster::ClusterState& state) {
  all_in_place_ = true;
  held_ = false;
  const auto has_moved = [&](const std::string& id) {
    const auto* status = state.ownership->find(id);
    return status != nullptr && status->moved >= version_;
  };
  std::vector<const cluster::Node*> targets;
  for (const std::string& id : cluster::may_hold_any(cluster::ownership_of(state.map))) {
    if (const auto* node = state.map.find(id); node != nullptr && state.live.contains(id))
      targets.push_back(node);
    else
      all_in_place_ = all_in_place_ && has_moved(id);
  }
  std::vector<Task<Report>> calls;
  calls.reserve(targets.size());
  for (const cluster::Node* target : targets)
    calls.push_back(rebalance_job_ask(services_, *target));
  const auto reports = co_await gather(std::move(calls));
  const std::int64_t now = services_.clock.wall_time().count();
  for (std::size_t i = 0; i < targets.size(); ++i) {
    const std::string& id = targets[i]->id;
    const Report& report = reports[i];
    bool in_place = has_moved(id);
    if (report.known) {
      // A walk by an older map is not of this rebalance.
      if (report.walk.objects > 0 && report.map_version >= version_) walks_[id].take(report);
      in_place = report.state == "in_place" && report.map_version >= version_;
      held_ = held_ || report.state == "held";
    }
    all_in_place_ = all_in_place_ && in_place;
    services_.jobs.update(job_.id, [&](Job& job) {
      const std::int64_t ended = job.parts[id].ended_ns;
      take_progress(job, id, walks_[id].sum(), !in_place ? 0 : ended != 0 ? ended : now);
    });
  }
}

Task<Status> RebalanceJobWatched::follow(End end) {
  while (true) {
    if (services_.jobs.should_stop(job_.id))
      co_return fail(Errc::cancelled, "the job was told to stop");
    const auto state = services_.view.state();
    if (state->map.version < version_) {  // another proxy has noted it, we do not know it yet
      co_await pause(kRebalanceJobLookEvery);
      continue;
    }
    co_await look(*state);
    CO_TRY(const bool ended, end(*state));
    if (ended && all_in_place_) co_return Status();
    if (held_) co_return fail(Errc::cancelled, "stopped: names stay where they are for now");
    co_await pause(kRebalanceJobLookEvery);
  }
}

std::string owners_of(const Job& job) {
  return json::parse(job.order, nullptr, false).value("owners", "");
}

bool is_running(const Services& services, const Job& job) {
  const auto jobs = services.jobs.all();
  return std::any_of(jobs.begin(), jobs.end(), [&](const Job& each) {
    return each.kind == kRebalanceJobKind && each.is_running() && owners_of(each) == owners_of(job);
  });
}

/// The rebalance that the map of `state` begins.
Job job_of(const cluster::ClusterState& state) {
  Job job;
  job.id = cluster::rebalance_id(state.map.version);
  job.kind = kRebalanceJobKind;
  job.about = fmt::format("map version {}", state.map.version);
  job.order = json{{"owners", owners_mark(*state.ownership->map)}}.dump();
  for (const std::string& id : cluster::may_hold_any(*state.ownership->map)) job.parts[id] = {};
  return job;
}

/// Rebalances that have begun and are not noted yet. Thread-safe.
class Begun {
 public:
  void take_again(const cluster::ClusterState& state) {
    {
      const MutexLock lock(mutex_);
      seen_ = 0;
    }
    take(state);
  }
  void take(const cluster::ClusterState& state) {
    if (state.map.past.empty() || state.ownership->settled < state.map.version) return;
    const MutexLock lock(mutex_);
    if (state.map.version > seen_) jobs_.push_back(job_of(state));
    seen_ = std::max(seen_, state.map.version);
  }
  std::optional<Job> next() {
    const MutexLock lock(mutex_);
    if (jobs_.empty()) return std::nullopt;
    Job job = std::move(jobs_.front());
    jobs_.pop_front();
    return job;
  }

 private:
  Mutex mutex_;
  std::deque<Job> jobs_ TARN_GUARDED_BY(mutex_);
  std::uint64_t seen_ TARN_GUARDED_BY(mutex_) = 0;
};

}  // namespace

std::string owners_mark(const cluster::Ownership& map) {
  std::string all;
  const bool has_zones = cluster::zones_in_use(map.members);
  for (const cluster::Member& member : map.members) {
    if (!member.owns()) continue;
    all += fmt::format("{} {} {}", member.id, member.weight, member.drives);
    if (has_zones) all += " " + member.zone;
    all += "\n";
  }
  return hex64(xxh64(all));
}

Task<std::string> note_rebalance(const Services& services,
                                 std::shared_ptr<const cluster::ClusterState> state) {
  Job job = job_of(*state);
  const std::string id = job.id;
  const auto noted = co_await services.jobs.add_pending(std::move(job));
  if (!noted)
    obs::log("proxy").warn("rebalance not noted job={} err={}", id, noted.error().message);
  co_return id;
}

/// By each change of the map, not by a look now and then: a rebalance may be over in no time.
Task<void> note_rebalances(const Services& services) {
  co_await asio::this_coro::throw_if_cancelled(false);
  const auto begun = std::make_shared<Begun>();
  services.view.on_change(
      [begun](const auto&, const cluster::ClusterState& now) { begun->take(now); });
  bool led = false;
  while (!co_await is_cancelled()) {
    const auto state = services.view.state();
    const bool lead = leads(services, *state);
    if (lead && !led) begun->take_again(*state);  // the last leader may have had no time for it
    led = lead;
    while (const auto job = begun->next()) {
      if (!lead || is_running(services, *job)) continue;
      const auto noted = co_await services.jobs.add_pending(*job);
      if (!noted)
        obs::log("proxy").warn("rebalance not noted job={} err={}", job->id, noted.error().message);
    }
    co_await pause_until(next_tick(kRebalanceJobLookEvery));
  }
}

Task<Status> drive_rebalance(const Services& services, Job job) {
  const auto version = parse_u64(std::string_view(job.id).substr(1)).value_or(0);
  const auto end = [owners = owners_of(job)](const cluster::ClusterState& state) -> Result<bool> {
    if (state.map.past.empty()) return true;
    if (owners_mark(*state.ownership->map) == owners) return false;
    return fail(Errc::cancelled, "overtaken by map version {}", state.map.version);
  };
  RebalanceJobWatched watched(services, std::move(job), version);
  co_return co_await watched.follow(end);
}

Task<Status> watch_copies_on_nodes(const Services& services, Job job, BucketId bucket,
                                   std::uint64_t since) {
  const auto end = [=](const cluster::ClusterState& state) -> Result<bool> {
    const auto* record = state.bmd.find(bucket);
    if (record == nullptr)
      return fail(Errc::bucket_not_found, "the bucket was destroyed meanwhile");
    if (record->replica_count_since() != since)
      return fail(Errc::cancelled, "overtaken by another number of copies");
    return std::all_of(state.map.past.begin(), state.map.past.end(),
                       [](const auto& set) { return !set.only_for.empty(); });
  };
  RebalanceJobWatched watched(services, std::move(job), since);
  co_return co_await watched.follow(end);
}

}  // namespace tarn::proxy
