#include "common/obs/metrics.h"

#include <prometheus/text_serializer.h>

namespace tarn::obs {

Metrics::Metrics() : registry_(std::make_shared<prometheus::Registry>()) {}

prometheus::Counter& Metrics::counter(const std::string& name, const std::string& help,
                                      const Labels& labels) {
  return prometheus::BuildCounter().Name(name).Help(help).Register(*registry_).Add(labels);
}

prometheus::Gauge& Metrics::gauge(const std::string& name, const std::string& help,
                                  const Labels& labels) {
  return prometheus::BuildGauge().Name(name).Help(help).Register(*registry_).Add(labels);
}

prometheus::Histogram& Metrics::histogram(const std::string& name, const std::string& help,
                                          const Labels& labels,
                                          const prometheus::Histogram::BucketBoundaries& bounds) {
  return prometheus::BuildHistogram()
      .Name(name)
      .Help(help)
      .Register(*registry_)
      .Add(labels, bounds);
}

void Metrics::before_scrape(std::function<void()> refresh) {
  const MutexLock lock(refresh_mutex_);
  refresh_.push_back(std::move(refresh));
}

std::string Metrics::text() {
  {
    // Some add to a counter the events since the last time: two at once would add them twice.
    const MutexLock lock(refresh_mutex_);
    for (const auto& refresh : refresh_) refresh();
  }
  return prometheus::TextSerializer().Serialize(registry_->Collect());
}

}  // namespace tarn::obs
