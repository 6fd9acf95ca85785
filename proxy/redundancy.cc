#include "proxy/redundancy.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "proxy/ask_targets.h"
#include "proxy/assign.h"
#include "proxy/rebuild_waits.h"
#include "proxy/redundancy_count.h"
#include "proxy/scrub_ages.h"
#include "proxy/scrub_job.h"

namespace tarn::proxy {
namespace {

using nlohmann::json;

/// How many lost objects are named of the one bucket that is asked for, and of each of all.
constexpr std::size_t kLostOfOne = 10'000;
constexpr std::size_t kLostOfEach = 1'000;

json or_null(const std::optional<std::int64_t>& time) { return time ? json(*time) : json(); }

/// What is counted of the buckets, and when all of them was last read.
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

}  // namespace

Task<Result<http::Response>> answer_redundancy(const Services& services,
                                               const http::Request& request) {
  const std::string name(request.query().get("bucket"));
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
  co_return http::Response(
      200, http::kJson, ledger.take().dump(-1, ' ', false, json::error_handler_t::replace) + "\n");
}

}  // namespace tarn::proxy
