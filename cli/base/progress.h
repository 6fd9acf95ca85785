#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include "cli/base/exit_code.h"
#include "common/base/error.h"
#include "common/base/mutex.h"

namespace tarn::cli {

/// Progress of one transfer. Written by its worker, read by the display.
class Meter {
 public:
  /// `total` bytes are wanted, `done` of them are there.
  void begin(std::uint64_t total, std::uint64_t done) {
    total_ = total;
    done_ = done;
  }
  void at(std::uint64_t done) { done_ = done; }
  void add(std::uint64_t bytes) { done_ += bytes; }
  [[nodiscard]] std::uint64_t total() const { return total_; }
  [[nodiscard]] std::uint64_t done() const { return done_; }

 private:
  std::atomic<std::uint64_t> total_ = 0;
  std::atomic<std::uint64_t> done_ = 0;
};

/// Numbers of a line of progress, in bytes and seconds.
struct ProgressFigures {
  std::uint64_t done = 0;
  std::uint64_t total = 0;  ///< 0: unknown
  double rate = 0;          ///< a second
};
/// "shard-000017.tar   45%  310MiB of 1.0GiB  211MiB/s  0:03 left", cut to `columns` (0: not cut).
[[nodiscard]] std::string progress_line(std::string_view name, const ProgressFigures& figures,
                                        std::size_t columns);
/// "0:07", "12:30", "3:05:00".
[[nodiscard]] std::string clock_text(double seconds);

enum class ProgressStyle : std::uint8_t {
  silent,
  plain,  ///< a line every few seconds while something moves, and errors
  live,   ///< a line a transfer and one for all, drawn over themselves
};
/// silent when asked for; live when stderr is a terminal that can; else plain.
[[nodiscard]] ProgressStyle progress_style(bool quiet);

/// The progress of many transfers on stderr, and the only place that writes there while they run.
/// Thread-safe. Its own thread draws.
class Progress {
 public:
  /// Lines begin with "tarn COMMAND: ".
  Progress(std::string command, ProgressStyle style);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Total that is expected; 0 for unknown. May grow.
  void expect(std::size_t items, std::uint64_t bytes);
  /// One transfer: it has a line from its making to its end.
  class Line {
   public:
    Line(Progress& progress, std::string name);
    ~Line();
    Line(const Line&) = delete;
    Line& operator=(const Line&) = delete;
    [[nodiscard]] Meter& meter() { return meter_; }

   private:
    friend class Progress;
    Progress& progress_;
    std::string name_;
    Meter meter_;
    std::chrono::steady_clock::time_point since_ = std::chrono::steady_clock::now();
  };

  /// An error or a remark as a line of its own: "tarn COMMAND: TEXT".
  void say(std::string_view text);
  Exit complain(const Error& error);
  /// Wipes the live lines; nothing is drawn any more.
  void finish();

 private:
  void run();
  void draw() TARN_REQUIRES(mutex_);
  void wipe() TARN_REQUIRES(mutex_);
  void print_plain() TARN_REQUIRES(mutex_);
  [[nodiscard]] ProgressFigures total_figures() const TARN_REQUIRES(mutex_);
  [[nodiscard]] std::string total_line(std::size_t columns) const TARN_REQUIRES(mutex_);

  std::string command_;
  ProgressStyle style_;
  std::chrono::steady_clock::time_point since_ = std::chrono::steady_clock::now();

  mutable Mutex mutex_;
  ConditionVariable wake_;
  bool stop_ TARN_GUARDED_BY(mutex_) = false;
  std::list<Line*> lines_ TARN_GUARDED_BY(mutex_);
  std::size_t items_ TARN_GUARDED_BY(mutex_) = 0;
  std::size_t items_done_ TARN_GUARDED_BY(mutex_) = 0;
  std::uint64_t bytes_ TARN_GUARDED_BY(mutex_) = 0;
  std::uint64_t bytes_done_ TARN_GUARDED_BY(mutex_) = 0;  ///< of lines that have ended
  std::uint64_t bytes_said_ TARN_GUARDED_BY(mutex_) = 0;  ///< by the last plain line
  std::size_t drawn_ TARN_GUARDED_BY(mutex_) = 0;         ///< live lines on the screen now
  std::thread thread_;
};

}  // namespace tarn::cli
