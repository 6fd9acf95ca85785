#include "target/drive_reports.h"

namespace tarn::target {

void export_drives(obs::Metrics& metrics, const ObjectStore& store) {
  for (const auto& drive : store.drives()) {
    const obs::Labels labels{{"drive", drive->path()}};
    const auto gauge = [&](const char* name, const char* help) -> prometheus::Gauge& {
      return metrics.gauge(name, help, labels);
    };
    auto& up = gauge("tarn_drive_up", "1 while the drive is in, 0 once it was taken out");
    auto& hung =
        gauge("tarn_drive_hung", "1 while the drive does not answer: it is out until it does");
    auto& hangs = gauge("tarn_drive_hangs", "times since the start that the drive did not answer");
    auto& suspect = gauge("tarn_drive_suspect",
                          "1 for a minute after a write failed: new objects go to other drives");
    auto& total = gauge("tarn_drive_bytes", "size of the drive's file system");
    auto& free = gauge("tarn_drive_free_bytes", "free bytes of the drive's file system");
    auto& read_errors = gauge("tarn_drive_read_errors", "reads that failed since the start");
    auto& write_errors = gauge("tarn_drive_write_errors", "writes that failed since the start");
    auto& sync_errors = gauge("tarn_drive_sync_errors", "syncs that failed since the start");
    const auto counter = [&](const char* name, const char* help) -> prometheus::Counter& {
      return metrics.counter(name, help, labels);
    };
    auto& reads = counter("tarn_drive_reads_total", "reads of the drive's files");
    auto& read_bytes = counter("tarn_drive_read_bytes_total", "bytes read from the drive's files");
    auto& writes = counter("tarn_drive_writes_total", "writes to the drive's files");
    auto& written = counter("tarn_drive_written_bytes_total", "bytes written to its files");
    auto& syncs = counter("tarn_drive_syncs_total", "syncs of the drive's files");
    auto& corrupt = gauge("tarn_drive_corrupt_blocks",
                          "blocks that did not match their checksum since the start");
    auto& seeks = gauge("tarn_drive_seeks",
                        "reads since the start that did not begin where the last one ended");
    auto& ratio = gauge("tarn_drive_sequential_ratio",
                        "share of a rotational drive's rate that its readers got since the start, "
                        "a seek counted as 2.4 MB");
    auto& queue =
        gauge("tarn_drive_queue", "work that waits for the drive's threads or runs there");
    auto& streams = gauge("tarn_drive_streams", "readers that take turns");
    auto& waiting = gauge("tarn_drive_waiting_turns", "readers that wait for their turn");
    gauge("tarn_drive_adopted", "files adopted at the start")
        .Set(static_cast<double>(drive->recovery().adopted));
    metrics.before_scrape([&, &its = *drive] {
      up.Set(its.usable() ? 1 : 0);
      hung.Set(its.hangs() ? 1 : 0);
      hangs.Set(static_cast<double>(its.counters().hangs.load()));
      suspect.Set(its.suspect() ? 1 : 0);
      seeks.Set(static_cast<double>(its.counters().seeks.load()));
      ratio.Set(its.sequential_ratio());
      queue.Set(static_cast<double>(its.queued()));
      streams.Set(static_cast<double>(its.turns().streams()));
      waiting.Set(static_cast<double>(its.turns().waiting()));
      total.Set(static_cast<double>(its.space().total));
      free.Set(static_cast<double>(its.space().free));
      read_errors.Set(static_cast<double>(its.counters().read_errors.load()));
      write_errors.Set(static_cast<double>(its.counters().write_errors.load()));
      sync_errors.Set(static_cast<double>(its.counters().sync_errors.load()));
      corrupt.Set(static_cast<double>(its.counters().corrupt_blocks.load()));
      const io::IoCounters& io = its.io_counters();
      const auto bring = [](prometheus::Counter& metric, const std::atomic<std::uint64_t>& value) {
        metric.Increment(static_cast<double>(value.load()) - metric.Value());
      };
      bring(reads, io.reads);
      bring(read_bytes, io.read_bytes);
      bring(writes, io.writes);
      bring(written, io.written_bytes);
      bring(syncs, io.syncs);
    });
  }
}

std::vector<cluster::DriveReport> drive_reports(const ObjectStore& store,
                                                const SpaceLimits& limits) {
  std::vector<cluster::DriveReport> out;
  for (const auto& drive : store.drives()) {
    const io::Space space = drive->space();
    cluster::DriveReport report;
    report.path = drive->path();
    report.mount = drive->mount();
    report.used = space.total - space.free;
    report.available = space.free;
    report.usable = drive->usable().has_value();
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
    report.usable = false;
    out.push_back(std::move(report));
  }
  return out;
}

}  // namespace tarn::target
