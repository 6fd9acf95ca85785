#include "proxy/admin/redundancy.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "common/base/encoding.h"
#include "proxy/admin/redundancy_count.h"
#include "proxy/jobs/rebuild_waits.h"
#include "proxy/jobs/scrub_ages.h"
#include "proxy/jobs/scrub_job.h"
#include "proxy/object/assign.h"
#include "proxy/watch/ask_targets.h"

namespace tarn::proxy {
namespace {

using nlohmann::json;

/// Number of lost objects that are named of the one bucket that is asked for, and of each of all.
constexpr std::size_t kLostOfOne = 10'000;
constexpr std::size_t kLostOfEach = 1'000;

/// Names of objects in one state that an answer has at most.
constexpr std::size_t kListed = 10'000;

json or_null(const std::optional<std::int64_t>& time) { return time ? json(*time) : json(); }

/// Counts of the buckets, and the time at which all of them was last read.
class Ledger {
 public:
  Ledger(const Services& services, json scrubs, json rebuilds, json absent)
      : services_(services),
        scrubs_(std::move(scrubs)),
        rebuilds_(std::move(rebuilds)),
        absent_(std::move(absent)),
        now_ns_(services.clock.wall_time().count()) {}

  Task<Status> add(std::shared_ptr<const cluster::ClusterState> state, BucketId bucket,
                   CountOrder order) {
    CO_TRY(const auto counted,
           co_await count_redundancy(services_, std::move(state), bucket, std::move(order)));
    complete_ = complete_ && counted.complete();
    json one = counted;
    one["oldest_verified_ns"] = or_null(oldest_verified(scrubs_, bucket, now_ns_));
    one["waits"] = waits_of_bucket(rebuilds_, bucket, absent_);
    buckets_.push_back(std::move(one));
    co_return Status();
  }

  [[nodiscard]] json take() {
    return {{"buckets", std::move(buckets_)},
            {"complete", complete_},
            {"oldest_verified_ns", or_null(oldest_verified(scrubs_, now_ns_))}};
  }

 private:
  const Services& services_;
  const json scrubs_;
  const json rebuilds_;
  const json absent_;
  const std::int64_t now_ns_;
  json buckets_ = json::array();
  bool complete_ = true;
};

http::Response answer_of(const json& body) {
  return http::Response(200, http::kJson,
                        body.dump(-1, ' ', false, json::error_handler_t::replace) + "\n");
}

/// The state that `list=` names; none without it.
Result<std::optional<api::ObjectState>> state_asked(const http::Request& request) {
  const std::string word(request.query().get("list"));
  if (word.empty()) {
    if (request.query().get("after").empty()) return std::nullopt;
    return fail(Errc::invalid_argument,
                "after= goes with list=: add list=reduced, or use lost_after=");
  }
  const auto state = api::parse_object_state(word);
  if (!state)
    return fail(Errc::invalid_argument,
                "list={} is no state of objects; there are full, reduced, at_risk and lost", word);
  if (request.query().get("bucket").empty())
    return fail(Errc::invalid_argument, "list= names objects of one bucket: add bucket=NAME");
  return state;
}

/// A page of the names of a bucket's objects in one state.
Task<Result<http::Response>> answer_list(const Services& services, KnownBucket known,
                                         api::ObjectState state, std::string after) {
  CountOrder order;
  order.list = state;
  order.list_after = std::move(after);
  order.list_max = kListed;
  CO_TRY(const auto counted,
         co_await count_redundancy(services, known.state, known.record->id, std::move(order)));
  const api::FirstNames& names = counted.list->names;
  json out = names;
  out["name"] = counted.bucket.name;
  out["provider"] = counted.bucket.provider;
  out["list"] = api::to_string(state);
  out["targets_away"] = counted.targets_away;
  out["drives_away"] = counted.counts.drives_away;
  out["complete"] = counted.complete();
  if (names.more()) out["next"] = percent_encode(*names.names().rbegin());
  co_return answer_of(out);
}

}  // namespace

Task<Result<http::Response>> answer_redundancy(const Services& services,
                                               const http::Request& request) {
  const std::string name(request.query().get("bucket"));
  CO_TRY(const auto state_wanted, state_asked(request));
  if (state_wanted) {
    CO_TRY_OK(api::check_bucket_name(name));
    CO_TRY(const api::Bucket bucket, api::bucket_from(name, request.query()));
    CO_TRY(KnownBucket known, co_await find_bucket(services, bucket));
    co_return co_await answer_list(services, std::move(known), *state_wanted,
                                   std::string(request.query().get("after")));
  }
  json scrubs = co_await scrubs_told(services);
  json rebuilds = co_await ask_targets_for(services, "/v1/internal/rebuild");
  json absent = co_await absent_targets(services);
  Ledger ledger(services, std::move(scrubs), std::move(rebuilds), std::move(absent));
  if (!name.empty()) {
    CO_TRY_OK(api::check_bucket_name(name));
    CO_TRY(const api::Bucket bucket, api::bucket_from(name, request.query()));
    CO_TRY(const KnownBucket known, co_await find_bucket(services, bucket));
    CountOrder order{std::string(request.query().get("lost_after")), kLostOfOne};
    CO_TRY_OK(co_await ledger.add(known.state, known.record->id, std::move(order)));
  } else {
    const auto state = services.view.state();
    for (const auto& [bucket, record] : state->bmd.buckets) {
      const Status one = co_await ledger.add(state, record.id, {"", kLostOfEach});
      if (!one && one.error().code == Errc::bucket_not_found) continue;  // gone just now
      CO_TRY_OK(one);
    }
  }
  co_return answer_of(ledger.take());
}

}  // namespace tarn::proxy
