#include "proxy/admin/redundancy_board.h"

#include <algorithm>
#include <string>
#include <utility>

namespace tarn::proxy {
namespace {

double seconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

prometheus::MetricFamily gauge(std::string name, std::string help) {
  return {std::move(name), std::move(help), prometheus::MetricType::Gauge, {}};
}

void add(prometheus::MetricFamily& family, const std::string& bucket, double value,
         const char* state = nullptr) {
  prometheus::ClientMetric metric;
  metric.label.push_back({"bucket", bucket});
  if (state != nullptr) metric.label.push_back({"state", state});
  metric.gauge.value = value;
  family.metric.push_back(std::move(metric));
}

/// The families that are shown, filled bucket by bucket.
class Gauges {
 public:
  void show(const std::string& bucket, const RedundancyBoard::Counted& counted, BootTime now,
            WallTime wall) {
    const Redundancy& its = counted.redundancy;
    show_states(bucket, its.counts);
    add(unnamed_, bucket, static_cast<double>(its.unnamed.bytes));
    if (its.survives_drives) add(drives_, bucket, static_cast<double>(*its.survives_drives));
    if (its.survives_nodes) add(nodes_, bucket, static_cast<double>(*its.survives_nodes));
    if (its.survives_zones) add(zones_, bucket, static_cast<double>(*its.survives_zones));
    add(complete_, bucket, its.complete() ? 1 : 0);
    add(age_, bucket, seconds(now - counted.began));
    if (!counted.verified_ns) return;
    add(verified_, bucket, std::max(0.0, seconds(wall - WallTime(*counted.verified_ns))));
  }

  std::vector<prometheus::MetricFamily> take() && {
    std::vector<prometheus::MetricFamily> out;
    for (auto* each :
         {&objects_, &bytes_, &unnamed_, &drives_, &nodes_, &zones_, &complete_, &age_, &verified_})
      if (!each->metric.empty()) out.push_back(std::move(*each));
    return out;
  }

 private:
  void show_states(const std::string& bucket, const api::CopyCounts& counts) {
    const auto show = [&](const char* state, std::uint64_t objects, std::uint64_t bytes) {
      add(objects_, bucket, static_cast<double>(objects), state);
      add(bytes_, bucket, static_cast<double>(bytes), state);
    };
    show("full", counts.full, counts.full_bytes);
    show("reduced", counts.reduced, counts.reduced_bytes);
    show("at_risk", counts.at_risk, counts.at_risk_bytes);
    show("lost", counts.lost, counts.lost_bytes);
  }

  prometheus::MetricFamily objects_ =
      gauge("tarn_bucket_objects", "Objects by how much of each is there.");
  prometheus::MetricFamily bytes_ =
      gauge("tarn_bucket_bytes", "The same in bytes, each object once.");
  prometheus::MetricFamily unnamed_ =
      gauge("tarn_bucket_unnamed_bytes", "Bytes of slices that no record names: they go soon.");
  prometheus::MetricFamily drives_ =
      gauge("tarn_bucket_survives_drives",
            "Drives, whichever they are, that may go at once without a loss.");
  prometheus::MetricFamily nodes_ =
      gauge("tarn_bucket_survives_nodes",
            "Targets, whichever they are, that may go at once without a loss.");
  prometheus::MetricFamily zones_ =
      gauge("tarn_bucket_survives_zones",
            "Zones, whichever they are, that may go at once without a loss.");
  prometheus::MetricFamily complete_ =
      gauge("tarn_bucket_counted_whole",
            "1: each object is counted; 0: some may lie only on what is away.");
  prometheus::MetricFamily age_ =
      gauge("tarn_bucket_counted_seconds", "How long ago that count began.");
  prometheus::MetricFamily verified_ =
      gauge("tarn_bucket_oldest_verified_seconds",
            "All that is older has been read and compared since; before all has been read once, "
            "how long ago the first scrub began.");
};

}  // namespace

void RedundancyBoard::round_begins(BootTime now, std::chrono::nanoseconds interval) {
  const MutexLock lock(mutex_);
  round_began_ = now;
  interval_ = interval;
}

void RedundancyBoard::put(BucketId bucket, Counted counted) {
  const MutexLock lock(mutex_);
  counted_.insert_or_assign(bucket, std::move(counted));
}

void RedundancyBoard::drop(BucketId bucket) {
  const MutexLock lock(mutex_);
  counted_.erase(bucket);
}

void RedundancyBoard::round_ends(BootTime now) {
  const MutexLock lock(mutex_);
  round_took_ = now - round_began_;
  std::erase_if(counted_,
                [&](const auto& each) TARN_REQUIRES(mutex_) { return is_stale(each.second, now); });
}

void RedundancyBoard::clear() {
  const MutexLock lock(mutex_);
  counted_.clear();
  round_took_.reset();
}

/// The first round has no limit.
bool RedundancyBoard::is_stale(const Counted& counted, BootTime now) const {
  constexpr int kRounds = 3;
  const auto round = round_took_ ? *round_took_ : now - round_began_;
  return now - counted.began > kRounds * (interval_ + round);
}

std::vector<prometheus::MetricFamily> RedundancyBoard::gauges(const cluster::ClusterState& state,
                                                              BootTime now, WallTime wall) const {
  const MutexLock lock(mutex_);
  Gauges out;
  for (const auto& [id, counted] : counted_) {
    const cluster::BucketRecord* bucket = state.bmd.find(id);
    if (bucket != nullptr && !is_stale(counted, now))
      out.show(bucket->name.display(), counted, now, wall);
  }
  return std::move(out).take();
}

}  // namespace tarn::proxy
