#include "target/drives/drive_reports.h"

#include <map>
#include <memory>
#include <utility>

#include "common/base/mutex.h"

namespace tarn::target {
namespace {

constexpr const char* kUpHelp = "1 while the drive is in, 0 once it was taken out";

/// The metrics of one drive.
class DriveMetrics {
 public:
  DriveMetrics(obs::Metrics& metrics, const Drive& drive);
  void refresh(const Drive& drive);
  void gone() {
    up_.Set(0);
    slow_.Set(0);
  }

 private:
  /// A counter that goes on where the drive that was at this path before has left it.
  struct Counter {
    explicit Counter(prometheus::Counter& its_metric)
        : metric(its_metric), before(its_metric.Value()) {}
    void bring(const std::atomic<std::uint64_t>& value) {
      metric.Increment(before + static_cast<double>(value.load()) - metric.Value());
    }
    prometheus::Counter& metric;
    const double before;
  };
  [[nodiscard]] prometheus::Gauge& gauge(const char* name, const char* help) {
    return metrics_.gauge(name, help, labels_);
  }
  [[nodiscard]] Counter counter(const char* name, const char* help) {
    return Counter(metrics_.counter(name, help, labels_));
  }

  obs::Metrics& metrics_;
  const obs::Labels labels_;
  prometheus::Gauge& up_ = gauge("tarn_drive_up", kUpHelp);
  prometheus::Gauge& hung_ =
      gauge("tarn_drive_hung", "1 while the drive does not answer: it is out until it does");
  prometheus::Gauge& hangs_ =
      gauge("tarn_drive_hangs", "times since the start that the drive did not answer");
  prometheus::Gauge& suspect_ = gauge(
      "tarn_drive_suspect", "1 for a minute after a write failed: new objects go to other drives");
  prometheus::Gauge& slow_ =
      gauge("tarn_drive_slow", "1 while its disk takes several times as long as the others do");
  prometheus::Gauge& total_ = gauge("tarn_drive_bytes", "size of the drive's file system");
  prometheus::Gauge& free_ =
      gauge("tarn_drive_free_bytes", "free bytes of the drive's file system");
  prometheus::Gauge& read_errors_ =
      gauge("tarn_drive_read_errors", "reads that failed since the start");
  prometheus::Gauge& write_errors_ =
      gauge("tarn_drive_write_errors", "writes that failed since the start");
  prometheus::Gauge& sync_errors_ =
      gauge("tarn_drive_sync_errors", "syncs that failed since the start");
  Counter reads_ = counter("tarn_drive_reads_total", "reads of the drive's files");
  Counter read_bytes_ = counter("tarn_drive_read_bytes_total", "bytes read from the drive's files");
  Counter writes_ = counter("tarn_drive_writes_total", "writes to the drive's files");
  Counter written_ = counter("tarn_drive_written_bytes_total", "bytes written to its files");
  Counter syncs_ = counter("tarn_drive_syncs_total", "syncs of the drive's files");
  prometheus::Gauge& corrupt_ = gauge("tarn_drive_corrupt_blocks",
                                      "blocks that did not match their checksum since the start");
  prometheus::Gauge& seeks_ = gauge(
      "tarn_drive_seeks", "reads since the start that did not begin where the last one ended");
  prometheus::Gauge& ratio_ =
      gauge("tarn_drive_sequential_ratio",
            "share of a rotational drive's rate that its readers got since the start, a seek "
            "counted as 2.4 MB");
  prometheus::Gauge& queue_ =
      gauge("tarn_drive_queue", "work that waits for the drive's threads or runs there");
  prometheus::Gauge& streams_ = gauge("tarn_drive_streams", "readers that take turns");
  prometheus::Gauge& waiting_ =
      gauge("tarn_drive_waiting_turns", "readers that wait for their turn");
};

DriveMetrics::DriveMetrics(obs::Metrics& metrics, const Drive& drive)
    : metrics_(metrics), labels_{{"drive", drive.path()}} {
  gauge("tarn_drive_adopted", "files adopted at the start")
      .Set(static_cast<double>(drive.recovery().adopted));
}

void DriveMetrics::refresh(const Drive& drive) {
  slow_.Set(drive.is_slow() ? 1 : 0);
  up_.Set(drive.in_service() ? 1 : 0);
  hung_.Set(drive.hangs() ? 1 : 0);
  suspect_.Set(drive.suspect() ? 1 : 0);
  ratio_.Set(drive.sequential_ratio());
  queue_.Set(static_cast<double>(drive.queued()));
  streams_.Set(static_cast<double>(drive.turns().streams()));
  waiting_.Set(static_cast<double>(drive.turns().waiting()));
  total_.Set(static_cast<double>(drive.space().total));
  free_.Set(static_cast<double>(drive.space().free));
  const Drive::Counters& counters = drive.counters();
  hangs_.Set(static_cast<double>(counters.hangs.load()));
  seeks_.Set(static_cast<double>(counters.seeks.load()));
  read_errors_.Set(static_cast<double>(counters.read_errors.load()));
  write_errors_.Set(static_cast<double>(counters.write_errors.load()));
  sync_errors_.Set(static_cast<double>(counters.sync_errors.load()));
  corrupt_.Set(static_cast<double>(counters.corrupt_blocks.load()));
  const io::IoCounters& io = drive.io_counters();
  reads_.bring(io.reads);
  read_bytes_.bring(io.read_bytes);
  writes_.bring(io.writes);
  written_.bring(io.written_bytes);
  syncs_.bring(io.syncs);
}

/// The metrics of all drives that there ever were, kept up to date by several scrapes at a time.
struct AllMetrics {
  Mutex mutex;
  std::map<std::shared_ptr<Drive>, std::unique_ptr<DriveMetrics>> by_drive TARN_GUARDED_BY(mutex);
};

/// Errors of a drive, by kind.
std::map<std::string, std::uint64_t> errors_of(const Drive& drive) {
  const Drive::Counters& counters = drive.counters();
  std::map<std::string, std::uint64_t> out{{"read", counters.read_errors.load()},
                                           {"write", counters.write_errors.load()},
                                           {"sync", counters.sync_errors.load()},
                                           {"corrupt", counters.corrupt_blocks.load()},
                                           {"hang", counters.hangs.load()}};
  std::erase_if(out, [](const auto& each) { return each.second == 0; });
  return out;
}

/// Note for operators on a drive that is in the set.
std::string note_of(const Drive& drive) {
  switch (drive.state()) {
    case DriveState::up:
    case DriveState::draining: return "";
    case DriveState::slow: return "slow";
    case DriveState::suspect: return "a write failed within the last minute";
    case DriveState::disabled: return "disabled by an operator";
    case DriveState::hung:
    case DriveState::out:
    case DriveState::missing: break;
  }
  const Status usable = drive.usable();
  return usable ? "" : usable.error().message;
}

}  // namespace

void export_drives(obs::Metrics& metrics, const ObjectStore& store) {
  const auto refresh = [&metrics, &store, all = std::make_shared<AllMetrics>()] {
    const MutexLock lock(all->mutex);
    // First those that are no longer in use: another one at the same path has the last word.
    for (const auto& [drive, its] : all->by_drive) {
      its->refresh(*drive);
      its->gone();
    }
    for (const auto& drive : store.drives()) {
      auto& its = all->by_drive[drive];
      if (its == nullptr) its = std::make_unique<DriveMetrics>(metrics, *drive);
      its->refresh(*drive);
    }
    for (const auto& [path, why] : store.missing())
      metrics.gauge("tarn_drive_up", kUpHelp, {{"drive", path}}).Set(0);
  };
  refresh();  // a drive may be lost before the first scrape, which is to report why
  metrics.before_scrape(refresh);
}

std::vector<cluster::DriveReport> drive_reports(const ObjectStore& store, const SpaceLimits& limits,
                                                const std::set<std::string>& leaving,
                                                const std::map<std::string, std::string>& labels) {
  std::vector<cluster::DriveReport> out;
  for (const auto& drive : store.drives()) {
    const io::Space space = drive->space();
    cluster::DriveReport report;
    report.path = drive->path();
    report.mount = drive->mount();
    report.used = space.total - space.free;
    report.available = space.free;
    report.state = to_string(drive->state());
    report.disabled = drive->disabled();
    report.leaving = drive->draining() && !report.disabled;
    report.usable = !report.leaving && drive->in_service();
    report.note = note_of(*drive);
    report.errors = errors_of(*drive);
    const auto is_above = [&](double percent) {
      return static_cast<double>(report.used) * 100 > static_cast<double>(space.total) * percent;
    };
    report.low = is_above(limits.high_watermark);
    report.full = is_above(limits.out_of_space);
    out.push_back(std::move(report));
  }
  for (const auto& [path, why] : store.missing()) {
    cluster::DriveReport report;
    report.path = path;
    report.state = to_string(DriveState::missing);
    report.usable = false;
    report.note = why;
    out.push_back(std::move(report));
  }
  for (const std::string& path : leaving) {
    if (store.drive_at(path) != nullptr) continue;  // not yet
    cluster::DriveReport report;
    report.path = path;
    report.state = to_string(DriveState::draining);
    report.usable = false;
    report.leaving = true;
    out.push_back(std::move(report));
  }
  for (cluster::DriveReport& report : out)
    if (const auto label = labels.find(report.path); label != labels.end())
      report.label = label->second;
  return out;
}

}  // namespace tarn::target
