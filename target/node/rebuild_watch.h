#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "target/node/known_losses.h"
#include "target/node/recent_rate.h"
#include "target/node/wait_reasons.h"

namespace tarn::target {

/// Progress of this target with making whole what it owns (keep_coded.h), or with copies for other
/// targets (lost_records.h). Has what other nodes see of that, and what they want. All of it is
/// memory: what is missing is found on the drives again after a restart. Thread-safe.
class RebuildWatch {
 public:
  enum class State : std::uint8_t {
    unknown,  ///< no look yet
    looking,  ///< for what is missing
    working,  ///< makes it again
    waiting,  ///< something is left that could not be made; it looks again
    whole,    ///< all is there that can be made
    stopped   ///< stopped by request; it begins again when more is lost, or by request
  };
  /// Result of a look: objects by their number of missing slices (0: nothing is missing, but
  /// something lies at the wrong target).
  struct Todo {
    std::map<std::size_t, std::uint64_t, std::greater<>> objects;
    std::uint64_t bytes = 0;       ///< of slices that are to be made or moved
    std::uint64_t incomplete = 0;  ///< objects with slices missing that cannot be made now
    std::map<BucketId, std::uint64_t> buckets = {};  ///< `objects` by their bucket
    BucketWaits waits = {};                          ///< reasons why those that are incomplete wait
  };

  // For the work itself.

  void look_begins(std::uint64_t map_version);
  /// Notes the result of a look; the work on it begins.
  void found(Todo todo, const Clock& clock);
  /// Work on one object of the look that found it. Bytes count from when they may be written, the
  /// object when it ends. An end without end() means that it could not be made. Ends before the
  /// look and the watch do; for one coroutine.
  class Making {
   public:
    /// `missing` and `bytes`: as the look counted the object.
    Making(RebuildWatch& watch, const Clock& clock, BucketId bucket, std::size_t missing,
           std::uint64_t bytes)
        : watch_(watch), clock_(clock), bucket_(bucket), missing_(missing), bytes_(bytes) {}
    ~Making() { end(false); }
    Making(const Making&) = delete;
    Making& operator=(const Making&) = delete;

    /// Counts bytes that may be written now.
    void pass(std::uint64_t bytes);
    /// Notes why the object cannot be made whole; it is reported once the object ends as not made.
    void note(const WaitReason& reason);
    void note(const WaitReasons& reasons);
    /// The same of an error, at the target `where` if that is not empty.
    void note_failed(const std::string& error, const std::string& where = "");
    /// The same, unless a reason has been noted.
    void note_failed_unless_known(const std::string& error);
    /// The object has been made whole, or could not be. Later calls do nothing.
    void end(bool made);

   private:
    RebuildWatch& watch_;
    const Clock& clock_;
    const BucketId bucket_;
    const std::size_t missing_;
    const std::uint64_t bytes_;
    std::uint64_t passed_ = 0;  // never more than bytes_
    bool ended_ = false;
    WaitReasons reasons_;
  };
  /// Work of this target, or what it reads for that of other targets, waits for a limit or for
  /// clients.
  void held(HeldBy by, const Clock& clock);
  /// `all`: nothing is left that could be made. `error`: why not.
  void look_ends(bool all, const std::string& error, const Clock& clock);

  // For callers that want something.

  /// A look that begins after this call is wanted; looks with at least this number have.
  /// Takes back stop().
  std::uint64_t ask();
  /// The same, but a stop() stays; then the number of the last look that ended.
  std::uint64_t ask_unless_stopped();
  [[nodiscard]] bool is_asked() const;
  /// Ends what is under way. Holds until more is lost than `now`, whatever earlier looks have seen
  /// of that, or until ask().
  void stop(KnownLosses now);
  /// One look at what is lost `now`. True: more is than when it was stopped, or has been since, and
  /// that has been taken back.
  bool heed(KnownLosses now);
  [[nodiscard]] bool is_stopped() const;
  /// True if a proxy is to know that something is being made again.
  [[nodiscard]] bool wants_job() const;

  [[nodiscard]] State state() const;
  /// Sums of what has been made whole since the start of the process.
  struct Made {
    std::uint64_t objects = 0;
    std::uint64_t bytes = 0;
  };
  [[nodiscard]] Made made() const;
  /// {"state","map","looks","started_ns","ended_ns","objects","bytes","left_objects","left_bytes",
  /// "by_missing":{"2":5},"incomplete","rate","seconds_left","error"}: "looks" is the number of the
  /// last look that ended, objects and bytes are what was made since "started_ns". The rate is the
  /// mean of the present look, in which the last 30 seconds count for two thirds. "seconds_left" is
  /// how long, at that rate, what the look has found takes from now on; null when it is not known.
  /// "waits" has the reasons why objects are not whole (WaitReasons), those of the last look until
  /// the next has found other ones. "buckets": {"ID":{"left_objects","waits"}}, without those of
  /// which nothing is missing.
  [[nodiscard]] nlohmann::json report(const Clock& clock) const;

 private:
  void pass(std::uint64_t bytes, BootTime now);
  void count_made(BucketId bucket, std::size_t missing, std::uint64_t bytes);
  void leave(std::uint64_t passed);
  void not_made(BucketId bucket, const WaitReasons& reasons);
  [[nodiscard]] WaitReasons waits(std::uint64_t left, const WaitReasons& found, BootTime now) const
      TARN_REQUIRES(mutex_);
  [[nodiscard]] nlohmann::json buckets(BootTime now) const TARN_REQUIRES(mutex_);
  [[nodiscard]] std::optional<double> seconds_left(BootTime now) const TARN_REQUIRES(mutex_);

  mutable Mutex mutex_;
  State state_ TARN_GUARDED_BY(mutex_) = State::unknown;
  // Losses that were known when it was stopped.
  std::optional<KnownLosses> stopped_by_ TARN_GUARDED_BY(mutex_);
  std::uint64_t map_version_ TARN_GUARDED_BY(mutex_) = 0;
  std::uint64_t begun_ TARN_GUARDED_BY(mutex_) = 0;  // looks
  std::uint64_t ended_ TARN_GUARDED_BY(mutex_) = 0;
  std::uint64_t asked_ TARN_GUARDED_BY(mutex_) = 0;
  std::int64_t started_ns_ TARN_GUARDED_BY(mutex_) = 0;
  std::int64_t ended_ns_ TARN_GUARDED_BY(mutex_) = 0;
  std::uint64_t objects_ TARN_GUARDED_BY(mutex_) = 0;
  std::uint64_t bytes_ TARN_GUARDED_BY(mutex_) = 0;
  Made made_ TARN_GUARDED_BY(mutex_);
  Todo todo_ TARN_GUARDED_BY(mutex_);  // left to do
  bool missing_ TARN_GUARDED_BY(mutex_) = false;
  std::string error_ TARN_GUARDED_BY(mutex_);
  RecentRate rate_ TARN_GUARDED_BY(mutex_);                  // of the present look
  std::map<HeldBy, BootTime> held_ TARN_GUARDED_BY(mutex_);  // the last time
  // Bytes that have passed for objects that have not ended.
  std::uint64_t under_way_ TARN_GUARDED_BY(mutex_) = 0;
};
[[nodiscard]] const char* to_string(RebuildWatch::State state);

}  // namespace tarn::target
