#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include "common/base/mutex.h"

namespace tarn::obs {

using Labels = std::map<std::string, std::string>;

/// The metrics of a node, in one registry. Look a metric up once and keep the reference: it lives
/// as long as the Metrics. Updating one is thread-safe and lock-free.
class Metrics {
 public:
  Metrics();
  [[nodiscard]] prometheus::Counter& counter(const std::string& name, const std::string& help,
                                             const Labels& labels = {});
  [[nodiscard]] prometheus::Gauge& gauge(const std::string& name, const std::string& help,
                                         const Labels& labels = {});
  [[nodiscard]] prometheus::Histogram& histogram(
      const std::string& name, const std::string& help, const Labels& labels,
      const prometheus::Histogram::BucketBoundaries& bounds);
  /// Adds a function that is called before each text(), to bring gauges up to date; by one thread
  /// at a time. Thread-safe, but not within such a call.
  void before_scrape(std::function<void()> refresh);
  /// All metrics in Prometheus' text format 0.0.4. Thread-safe.
  [[nodiscard]] std::string text();

  static constexpr std::string_view kContentType = "text/plain; version=0.0.4; charset=utf-8";

 private:
  std::shared_ptr<prometheus::Registry> registry_;
  std::vector<std::function<void()>> refresh_ TARN_GUARDED_BY(refresh_mutex_);
  Mutex refresh_mutex_;  ///< held while they run
};

}  // namespace tarn::obs
