#include "target/repair/rebuild_metrics.h"

#include <array>
#include <limits>
#include <map>
#include <memory>
#include <string>

#include <nlohmann/json.hpp>

#include "common/base/mutex.h"

namespace tarn::target {
namespace {

using nlohmann::json;

double number_at(const json& report, const char* key) { return report.at(key).get<double>(); }

/// The metrics of one kind of work.
class RebuildMetrics {
 public:
  RebuildMetrics(obs::Metrics& metrics, const RebuildWatch& watch, const Clock& clock,
                 std::string work)
      : metrics_(metrics), watch_(watch), clock_(clock), work_(std::move(work)) {
    for (const WaitReason::Why why : kWhys) its_waiting(to_string(why)).Set(0);
    its_left("1").Set(0);
  }

  void refresh() {
    const json report = watch_.report(clock_);
    bytes_left_.Set(number_at(report, "left_bytes"));
    incomplete_.Set(number_at(report, "incomplete"));
    rate_.Set(number_at(report, "rate"));
    const json& seconds = report.at("seconds_left");
    seconds_left_.Set(seconds.is_number() ? seconds.get<double>()
                                          : std::numeric_limits<double>::quiet_NaN());
    for (auto& [missing, gauge] : left_) gauge->Set(0);
    for (const auto& [missing, objects] : report.at("by_missing").items())
      its_left(missing).Set(objects.get<double>());
    std::map<std::string, double> waiting;
    for (const json& reason : report.at("waits"))
      waiting[reason.at("why").get<std::string>()] += number_at(reason, "objects");
    for (const WaitReason::Why why : kWhys)
      its_waiting(to_string(why)).Set(waiting[to_string(why)]);
    const RebuildWatch::Made made = watch_.made();
    objects_.Increment(static_cast<double>(made.objects) - objects_.Value());
    bytes_.Increment(static_cast<double>(made.bytes) - bytes_.Value());
  }

 private:
  static constexpr std::array kWhys{
      WaitReason::Why::waits_for_node, WaitReason::Why::waits_for_drive, WaitReason::Why::no_room,
      WaitReason::Why::too_few_slices, WaitReason::Why::failed,          WaitReason::Why::limit,
      WaitReason::Why::clients,        WaitReason::Why::stopped};

  prometheus::Gauge& gauge(const char* name, const char* help) {
    return metrics_.gauge(name, help, {{"work", work_}});
  }
  prometheus::Counter& counter(const char* name, const char* help) {
    return metrics_.counter(name, help, {{"work", work_}});
  }
  prometheus::Gauge& its_left(const std::string& missing) {
    auto& its = left_[missing];
    if (its == nullptr)
      its = &metrics_.gauge("tarn_rebuild_left_objects",
                            "Objects that the present look has yet to make whole.",
                            {{"work", work_}, {"missing", missing}});
    return *its;
  }
  prometheus::Gauge& its_waiting(const char* why) {
    return metrics_.gauge("tarn_rebuild_waiting_objects",
                          "Objects that are not whole, by the reason why.",
                          {{"work", work_}, {"why", why}});
  }

  obs::Metrics& metrics_;
  const RebuildWatch& watch_;
  const Clock& clock_;
  const std::string work_;
  std::map<std::string, prometheus::Gauge*> left_;  // by the number of missing slices
  prometheus::Gauge& bytes_left_ =
      gauge("tarn_rebuild_left_bytes", "Bytes that are yet to be written for them.");
  prometheus::Gauge& incomplete_ = gauge(
      "tarn_rebuild_incomplete", "Objects of which something is missing that cannot be made now.");
  prometheus::Gauge& rate_ = gauge("tarn_rebuild_rate", "Bytes a second in the present look.");
  prometheus::Gauge& seconds_left_ =
      gauge("tarn_rebuild_seconds_left",
            "Seconds that what the look found takes from now on; NaN: unknown.");
  prometheus::Counter& objects_ =
      counter("tarn_rebuild_objects_total", "Objects made whole since the start.");
  prometheus::Counter& bytes_ =
      counter("tarn_rebuild_bytes_total", "Bytes of slices or copies made for them.");
};

/// Both kinds of work, kept up to date by several scrapes at a time.
struct AllRebuildMetrics {
  AllRebuildMetrics(obs::Metrics& metrics, const TargetNode& node)
      : slices(metrics, node.rebuild, node.clock, "slices"),
        copies(metrics, node.given_copies, node.clock, "copies") {}

  Mutex mutex;
  RebuildMetrics slices TARN_GUARDED_BY(mutex);
  RebuildMetrics copies TARN_GUARDED_BY(mutex);
};

}  // namespace

void export_rebuilds(obs::Metrics& metrics, const TargetNode& node) {
  metrics.before_scrape([all = std::make_shared<AllRebuildMetrics>(metrics, node)] {
    const MutexLock lock(all->mutex);
    all->slices.refresh();
    all->copies.refresh();
  });
}

}  // namespace tarn::target
