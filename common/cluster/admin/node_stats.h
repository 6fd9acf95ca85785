#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "common/base/mutex.h"
#include "common/cluster/state/state.h"
#include "common/http/server.h"
#include "common/obs/metrics.h"
#include "common/obs/proc_files.h"

namespace tarn::cluster {

/// Kinds of requests, as AIStore's trackers count them.
enum class Operation : std::uint8_t { get, put, head, append, del, ren, lst };
inline constexpr std::size_t kOperations = 7;

/// The operation of a request by its method and path (with query, still encoded); none for a
/// request that touches neither an object nor a list.
[[nodiscard]] std::optional<Operation> operation_of(http::Method method, std::string_view target);

/// AIStore's counters of one node: get.n, put.size, lst.ns, err.get.n, disk.sda.util and so on, for
/// what=node_status and, as ais_target_get_count and so on, for /metrics. Thread-safe.
class NodeStats {
 public:
  /// Time over which rates and averages are measured.
  static constexpr std::chrono::seconds kInterval{10};

  NodeStats(obs::Metrics& metrics, Role role, const std::string& node);
  /// Sets the disks of /proc/diskstats to report. Before the first tick().
  void watch_disks(std::set<std::string> disks);

  /// Counts each request and passes it on to `next`.
  [[nodiscard]] http::Observer observe(http::Observer next);
  void count(Operation operation, unsigned status, std::uint64_t bytes,
             std::chrono::nanoseconds took);

  /// tracker() counts anew from now on, or the errors alone do. Counters of /metrics go on: they
  /// only ever grow.
  void reset(bool errors_only);

  /// Every kInterval: takes the samples that rates are made of.
  void tick();

  /// {"get.n": 12, "get.size": 3456, ..}: AIStore's tracker. Zeros are left out, but for those of
  /// the last interval.
  [[nodiscard]] nlohmann::json tracker(std::chrono::nanoseconds uptime) const;
  /// {"get.n": "counter", ..}: all names that tracker() may have.
  [[nodiscard]] nlohmann::json kinds() const;
  /// {"sda": {"RBps": 1, "Ravg": 2, "WBps": 3, "Wavg": 4, "Util": 5}}, of the last interval.
  [[nodiscard]] nlohmann::json disks() const;

  /// Percent of all cores that this process used in the last interval, and that were busy.
  struct Cpu {
    double process_percent = 0;
    double machine_percent = 0;
  };
  [[nodiscard]] Cpu cpu() const;

 private:
  struct Counters {
    std::atomic<std::uint64_t> count{0};
    std::atomic<std::uint64_t> errors{0};
    std::atomic<std::uint64_t> bytes{0};
    std::atomic<std::uint64_t> nanoseconds{0};
  };
  struct Sample {
    std::uint64_t count = 0;
    std::uint64_t bytes = 0;
    std::uint64_t nanoseconds = 0;
    std::uint64_t errors = 0;
  };
  struct DiskRates {
    std::uint64_t read_bps = 0;
    std::uint64_t read_average = 0;
    std::uint64_t write_bps = 0;
    std::uint64_t write_average = 0;
    std::uint64_t util_percent = 0;
  };
  [[nodiscard]] bool has_sizes(Operation operation) const;
  void export_to(obs::Metrics& metrics, const std::string& node);
  void tick_disks(double seconds) TARN_REQUIRES(mutex_);

  Role role_;
  std::array<Counters, kOperations> counters_;

  // Samples, taken and read a few times a minute.
  mutable Mutex mutex_;
  /// Counters at the last reset().
  std::array<Sample, kOperations> zero_ TARN_GUARDED_BY(mutex_){};
  std::array<Sample, kOperations> last_ TARN_GUARDED_BY(mutex_){};
  /// Counts of the last whole interval.
  std::array<Sample, kOperations> interval_ TARN_GUARDED_BY(mutex_){};
  double interval_seconds_ TARN_GUARDED_BY(mutex_) = 0;
  std::chrono::steady_clock::time_point ticked_ TARN_GUARDED_BY(mutex_) =
      std::chrono::steady_clock::now();
  obs::CpuTicks cpu_last_ TARN_GUARDED_BY(mutex_);
  obs::Process process_last_ TARN_GUARDED_BY(mutex_);
  Cpu cpu_ TARN_GUARDED_BY(mutex_);
  std::set<std::string> watched_ TARN_GUARDED_BY(mutex_);
  std::map<std::string, obs::DiskCounters> disks_last_ TARN_GUARDED_BY(mutex_);
  std::map<std::string, DiskRates> disk_rates_ TARN_GUARDED_BY(mutex_);
};

}  // namespace tarn::cluster
