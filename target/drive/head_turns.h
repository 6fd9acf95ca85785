#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>

#include "common/base/async.h"
#include "common/base/error.h"
#include "common/base/mutex.h"

namespace tarn::target {

/// Purpose of a turn: a request of a client, or a move, a repair, or the upkeep of an index.
enum class TurnFor : std::uint8_t { client, background };

/// Turns at moving the head of a drive (docs/architecture.md). Many streams read one drive, and
/// uploads write to it. Each waits here before it reads or writes its next window, first come first
/// served. So the head stays on one file for a whole window. Windows that were read and not yet
/// sent share a budget: they are page cache, and more of them than fit would be evicted before they
/// are sent.
///
/// Knows nothing of files and threads, and never blocks. Thread-safe.
class HeadTurns {
 public:
  struct Limits {
    std::size_t at_once = 1;               ///< windows being read; 1 for a rotational drive
    std::uint64_t window_min = 8U << 20U;  ///< bytes
    std::uint64_t window_max = 16U << 20U;
    std::uint64_t budget = 256U << 20U;  ///< bytes read and not yet sent, all streams together
    std::uint64_t window_beside_clients = 2U << 20U;  ///< of the background
  };
  /// Limits for drives without a head: queue depth instead of long turns.
  static constexpr Limits solid() { return {4, 4U << 20U, 4U << 20U, 256U << 20U}; }

  /// Age of a part of the budget: what is too old has been forgiven, and is not released.
  enum class Age : std::uint64_t {};

  explicit HeadTurns(const Limits& limits) : limits_(limits) {}

  /// Calls `start` (here or later, from any thread; it must not block) when it is its turn. The
  /// turn lasts until done(), the budget is held until release().
  /// With `refused` it may be refused while refuse() holds: that is called instead.
  void ask(std::uint64_t bytes, std::function<void(Age)> start,
           std::function<void(Error)> refused = nullptr, TurnFor purpose = TurnFor::client);
  /// A turn of a caller that reads no window (a list, for instance): resumes on the caller's
  /// executor. Must be ended with done(), unless it was refused.
  Task<Status> wait(TurnFor purpose = TurnFor::client);
  void done();
  /// Runs `work`, of TurnFor::background, in a turn, blocking the calling thread until it is there.
  /// Not for the drive's own threads: those who have the turn may be waiting for one.
  void run(const std::function<void()>& work);
  /// `bytes` that were granted at `age` have been sent, or are given up. May start other turns.
  void release(Age age, std::uint64_t bytes);
  /// The drive does not answer. Until accept(), waiting and new work is refused with `why` at once,
  /// except work that cannot be refused (run()).
  void refuse(const Error& why);
  void accept();
  /// Once a second. When readers wait for the budget only, and have done so since the last call, it
  /// is held by streams whose clients are slow: they are forgiven, and may have to read again.
  /// Clients that waited are remembered until the second call after that.
  void tick();

  void stream_begins();
  void stream_ends();
  /// Bytes of the next window: shorter when many streams share the budget, and for the background
  /// while clients_wait(), so that they wait for at most that.
  [[nodiscard]] std::uint64_t window(TurnFor purpose = TurnFor::client) const;
  [[nodiscard]] std::size_t streams() const;
  [[nodiscard]] std::size_t waiting() const;
  /// True if a turn for a client waits, or had to wait within the last second or two.
  [[nodiscard]] bool clients_wait() const;

 private:
  struct Waiter {
    std::uint64_t bytes;
    std::function<void(Age)> start;
    std::function<void(Error)> refused;
    TurnFor purpose;
  };
  void grant();

  const Limits limits_;
  mutable Mutex mutex_;
  std::deque<Waiter> queue_ TARN_GUARDED_BY(mutex_);
  std::optional<Error> refusing_ TARN_GUARDED_BY(mutex_);
  bool clients_waited_ TARN_GUARDED_BY(mutex_) = false;         // since the last tick()
  bool clients_waited_before_ TARN_GUARDED_BY(mutex_) = false;  // between the two before
  std::size_t active_ TARN_GUARDED_BY(mutex_) = 0;
  std::size_t streams_ TARN_GUARDED_BY(mutex_) = 0;
  std::uint64_t held_ TARN_GUARDED_BY(mutex_) = 0;     // granted at the present age
  Age age_ TARN_GUARDED_BY(mutex_){};                  // all that was granted before is forgiven
  std::uint64_t granted_ TARN_GUARDED_BY(mutex_) = 0;  // turns ever granted
  std::uint64_t granted_at_tick_ TARN_GUARDED_BY(mutex_) = 0;
};

}  // namespace tarn::target
