#include "common/http/request_metrics.h"

#include <array>
#include <atomic>
#include <memory>

#include "common/obs/log.h"

namespace tarn::http {
namespace {

constexpr std::size_t kMethods = static_cast<std::size_t>(Method::other) + 1;
constexpr unsigned kStatusFirst = 100;
constexpr std::size_t kStatuses = 500;

/// Seconds: from an answer out of memory to an upload of many gigabytes.
const prometheus::Histogram::BucketBoundaries kSeconds{
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300};

/// One counter for each method and status that has occurred, found without a lock; and one
/// histogram for each method.
class RequestCounters {
 public:
  RequestCounters(obs::Metrics& metrics, std::string listener)
      : metrics_(metrics), listener_(std::move(listener)) {}

  void count(Method method, unsigned status) {
    if (status < kStatusFirst || status >= kStatusFirst + kStatuses) return;
    auto& slot = slots_[static_cast<std::size_t>(method)][status - kStatusFirst];
    prometheus::Counter* counter = slot.load(std::memory_order_acquire);
    if (counter == nullptr) {
      // Two threads may get here at once: the registry returns the same counter to both.
      counter = &metrics_.counter("tarn_http_requests_total", "Requests answered.",
                                  {{"listener", listener_},
                                   {"method", std::string(to_string(method))},
                                   {"status", std::to_string(status)}});
      slot.store(counter, std::memory_order_release);
    }
    counter->Increment();
  }

  void time(Method method, double seconds) {
    auto& slot = times_[static_cast<std::size_t>(method)];
    prometheus::Histogram* histogram = slot.load(std::memory_order_acquire);
    if (histogram == nullptr) {
      histogram = &metrics_.histogram(
          "tarn_http_request_seconds", "Time from a request's head to the end of its answer.",
          {{"listener", listener_}, {"method", std::string(to_string(method))}}, kSeconds);
      slot.store(histogram, std::memory_order_release);
    }
    histogram->Observe(seconds);
  }

 private:
  obs::Metrics& metrics_;
  std::string listener_;
  std::array<std::array<std::atomic<prometheus::Counter*>, kStatuses>, kMethods> slots_{};
  std::array<std::atomic<prometheus::Histogram*>, kMethods> times_{};
};

/// A request whose client went away before any answer: nginx's number for it.
constexpr unsigned kClientGone = 499;

unsigned status_of(const Exchange& exchange, const Status& result) {
  if (exchange.response_started()) return exchange.response_status();
  return result ? 0 : kClientGone;
}

/// Failures of ours are errors, those of drives, nodes and the network warnings; all else is the
/// client's affair.
spdlog::level::level_enum level_of(const Exchange& exchange, const Status& result) {
  static obs::LogLimiter limiter;
  if (result) return spdlog::level::debug;
  const Errc code = result.error().code;
  if (code == Errc::internal) return spdlog::level::err;
  const bool is_clients =
      code == Errc::disconnected || code == Errc::cancelled || code == Errc::unsupported;
  if (is_clients) return spdlog::level::debug;
  const bool was_cut = exchange.response_started() && !exchange.response_complete();
  const bool is_bad = was_cut || exchange.response_status() >= 500;
  return is_bad && limiter.allow() ? spdlog::level::warn : spdlog::level::debug;
}

void log_request(const Exchange& exchange, const Status& result, unsigned status, double ms) {
  static spdlog::logger& log = obs::log("http");
  const auto level = level_of(exchange, result);
  if (!log.should_log(level)) return;
  const std::string_view target = exchange.head().target;
  log.log(level, "request {} req={} method={} path={} status={} bytes={} ms={:.1f}{}",
          result ? "done" : "failed", exchange.request_id(), exchange.head().method_text,
          target.substr(0, target.find('?')), status, exchange.response_bytes(), ms,
          result ? "" : " err=" + result.error().message);
}

}  // namespace

Observer observe_requests(obs::Metrics& metrics, std::string listener) {
  auto counters = std::make_shared<RequestCounters>(metrics, std::move(listener));
  return [counters](const Exchange& exchange, const Status& result, std::chrono::nanoseconds took) {
    const unsigned status = status_of(exchange, result);
    counters->count(exchange.head().method, status);
    counters->time(exchange.head().method, std::chrono::duration<double>(took).count());
    log_request(exchange, result, status, std::chrono::duration<double, std::milli>(took).count());
  };
}

void export_server(obs::Metrics& metrics, const std::string& listener, const Server& server) {
  auto& connections = metrics.gauge("tarn_http_connections", "Connections that are open.",
                                    {{"listener", listener}});
  auto& bytes =
      metrics.counter("tarn_http_body_bytes_received_total",
                      "Payload bytes of request bodies that arrived.", {{"listener", listener}});
  metrics.before_scrape([&connections, &bytes, &server] {
    connections.Set(static_cast<double>(server.open_connections()));
    bytes.Increment(static_cast<double>(server.body_bytes_received()) - bytes.Value());
  });
}

}  // namespace tarn::http
