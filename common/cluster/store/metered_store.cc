#include "common/cluster/store/metered_store.h"

#include <utility>

namespace tarn::cluster {
namespace {

using SteadyClock = std::chrono::steady_clock;

/// Bounds of the histogram, in seconds: a lease lasts four.
const prometheus::Histogram::BucketBoundaries kSeconds{0.001, 0.003, 0.01, 0.03, 0.1,
                                                       0.3,   1.0,   2.0,  4.0};

/// True if the store failed: not an answer about keys or leases, nor a caller that has stopped
/// waiting.
bool is_failure(Errc code) {
  return code != Errc::not_found && code != Errc::conflict && code != Errc::precondition_failed &&
         code != Errc::cancelled;
}

/// The metrics of one kind of calls.
class Meter {
 public:
  Meter(obs::Metrics& metrics, const char* call)
      : seconds_(metrics.histogram("tarn_meta_seconds", "Time of a call of the meta store.",
                                   {{"call", call}}, kSeconds)),
        failures_(metrics.counter("tarn_meta_failures_total",
                                  "Calls of the meta store that failed.", {{"call", call}})),
        failing_(metrics.gauge("tarn_meta_failing",
                               "1 from a call of the meta store that failed until one succeeds.",
                               {{"call", call}})) {}

  template <class T>
  void note(SteadyClock::time_point begun, const Result<T>& answer) {
    seconds_.Observe(std::chrono::duration<double>(SteadyClock::now() - begun).count());
    if (answer) {
      failing_.Set(0);
    } else if (is_failure(answer.error().code)) {
      failures_.Increment();
      failing_.Set(1);
    }
  }

 private:
  prometheus::Histogram& seconds_;
  prometheus::Counter& failures_;
  prometheus::Gauge& failing_;
};

class MeteredStore final : public MetaStore {
 public:
  MeteredStore(std::unique_ptr<MetaStore> store, obs::Metrics& metrics)
      : store_(std::move(store)),
        range_(metrics, "range"),
        commit_(metrics, "commit"),
        lease_(metrics, "lease") {}

  Task<Result<RangeResult>> range(RangeRequest request) override {
    return timed(range_, store_->range(std::move(request)));
  }
  Task<Result<TransactionResult>> commit(Transaction transaction) override {
    return timed(commit_, store_->commit(std::move(transaction)));
  }
  Task<Result<LeaseId>> grant(std::chrono::seconds ttl) override {
    return timed(lease_, store_->grant(ttl));
  }
  Task<Result<std::chrono::seconds>> keep_alive(LeaseId lease) override {
    return timed(lease_, store_->keep_alive(lease));
  }
  Task<Status> revoke(LeaseId lease) override { return store_->revoke(lease); }
  Task<Result<LeaseState>> time_to_live(LeaseId lease) override {
    return timed(lease_, store_->time_to_live(lease));
  }
  Task<Status> watch(std::string prefix, Revision from,
                     std::function<bool(WatchBatch)> sink) override {
    return store_->watch(std::move(prefix), from, std::move(sink));
  }

 private:
  template <class T>
  static Task<Result<T>> timed(Meter& meter, Task<Result<T>> call) {
    const auto begun = SteadyClock::now();
    auto answer = co_await std::move(call);
    meter.note(begun, answer);
    co_return answer;
  }

  std::unique_ptr<MetaStore> store_;
  Meter range_;
  Meter commit_;
  Meter lease_;  // granting, renewing and asking for the time left
};

}  // namespace

std::unique_ptr<MetaStore> metered(std::unique_ptr<MetaStore> store, obs::Metrics& metrics) {
  return std::make_unique<MeteredStore>(std::move(store), metrics);
}

}  // namespace tarn::cluster
