#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>

#include "common/base/async.h"
#include "common/base/error.h"
#include "common/base/mutex.h"
#include "target/drive/head_turns.h"
#include "target/drive/open_object.h"

namespace tarn::target {

/// One reader's way through a range of an object (docs/architecture.md): brings the file into the
/// page cache window by window, in the drive's turns. Each block is compared with its checksum
/// before it is reported as ready. The next window is asked for when the reader enters the last
/// one. Bytes in memory that are verified need no turn.
///
/// ready(), passed(), lost() and close() are for one event loop; the drive's threads report to it.
/// Keeps itself and the object alive while a window is asked for or read.
class ReadAhead : public std::enable_shared_from_this<ReadAhead> {
 public:
  struct Options {
    bool keep_cached = true;     ///< else the pages are dropped when they have been sent
    bool verify_always = false;  ///< also what is in memory and was verified when it came there
    bool impatient = false;      ///< the bytes can be had elsewhere: see ready()
    TurnFor purpose = TurnFor::client;
  };
  /// Reads the bytes [begin, end) of `object`. An object without checksums must be read from 0 to
  /// its end, or have been adopted before.
  ReadAhead(std::shared_ptr<OpenObject> object, std::uint64_t begin, std::uint64_t end,
            const Options& options);
  ~ReadAhead();
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;

  /// The offset, above `at`, up to which bytes may be sent by the event loop; waits for the drive.
  /// Errors as OpenObject::verify_block: they concern bytes at or after `at`. To an impatient
  /// reader unavailable, when the drive has been at one call for HangWatch::kSlowSeconds; it may
  /// bring the bytes later.
  Task<Result<std::uint64_t>> ready(std::uint64_t at);
  /// Everything before `at` has been sent.
  void passed(std::uint64_t at);
  /// The pages at `at` have left the memory before they were sent: they are read again. Their part
  /// of the budget is returned.
  void lost(std::uint64_t at);
  /// The reader has ended.
  void close();

 private:
  struct Window {
    std::uint64_t begin;
    std::uint64_t end;
    std::uint64_t passed;  // sent up to here
    HeadTurns::Age age;
  };
  /// Answer of ready(); nothing while it has to wait.
  std::optional<Result<std::uint64_t>> look(std::uint64_t at);
  void ask(std::uint64_t begin);
  void start(std::uint64_t epoch, std::uint64_t begin, std::uint64_t end, HeadTurns::Age age);
  void read_window(std::uint64_t epoch, std::uint64_t begin, std::uint64_t end);
  Status bring_block(std::uint64_t block);
  bool report(std::uint64_t epoch, std::uint64_t ready, Status result);
  [[nodiscard]] bool wanted(std::uint64_t epoch);
  void refused(std::uint64_t epoch, Error why);
  void finish();
  [[nodiscard]] std::function<void()> note_change() TARN_REQUIRES(mutex_);
  void give_back(const std::deque<Window>& windows) TARN_EXCLUDES(mutex_);
  Task<void> changed();
  Task<void> changed_soon();

  const std::shared_ptr<OpenObject> object_;
  HeadTurns& turns_;
  const std::uint64_t end_;
  const Options options_;

  Mutex mutex_;
  std::uint64_t ready_ TARN_GUARDED_BY(mutex_);
  std::uint64_t asked_ TARN_GUARDED_BY(mutex_);  // all before it is ready, or being read
  // Reports of windows asked for before the last lost(), which have another epoch, are ignored.
  std::uint64_t epoch_ TARN_GUARDED_BY(mutex_) = 0;
  bool in_flight_ TARN_GUARDED_BY(mutex_) = false;  // a window is asked for or read; never two
  bool closed_ TARN_GUARDED_BY(mutex_) = false;
  bool stream_ TARN_GUARDED_BY(mutex_) = false;   // counted as a stream of the drive
  bool changed_ TARN_GUARDED_BY(mutex_) = false;  // since the reader last looked
  std::optional<Error> error_ TARN_GUARDED_BY(mutex_);
  std::deque<Window> windows_ TARN_GUARDED_BY(mutex_);  // granted, and not yet sent wholly
  std::function<void()> waiter_ TARN_GUARDED_BY(mutex_);
};

}  // namespace tarn::target
