#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <memory>
#include <string>

#include "common/base/async.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/event.h"
#include "common/base/mutex.h"

namespace tarn::target {

/// The way to one upstream server: at most so many requests at a time, and none while it does not
/// answer (a circuit breaker; M. Nygard, "Release It!", 2007). After kFailuresMax failures in a row
/// the circuit is open: requests are refused at once. When its time is over one request is
/// admitted; if it fails, too, the circuit stays open for twice as long. Thread-safe.
class ServerGate : public std::enable_shared_from_this<ServerGate> {
 public:
  static constexpr unsigned kFailuresMax = 16;
  static constexpr std::chrono::seconds kOpenFirst{1};
  static constexpr std::chrono::seconds kOpenMost{30};
  /// Time that a request waits for its turn.
  static constexpr std::chrono::seconds kWaitMost{60};

  /// `requests`: at a time.
  ServerGate(std::size_t requests, Clock& clock) : requests_(requests), clock_(clock) {}

  /// A request under way, which ends with its destruction; none when it was made by default.
  class Pass {
   public:
    Pass() = default;
    Pass(Pass&&) noexcept = default;
    Pass& operator=(Pass&& other) noexcept;
    ~Pass();
    /// Notes that the server sent an answer which is not its own failure, or did not. Of a request.
    void note(bool answered);

   private:
    friend class ServerGate;
    explicit Pass(std::shared_ptr<ServerGate> gate) : gate_(std::move(gate)) {}
    std::shared_ptr<ServerGate> gate_;
  };
  /// Waits for its turn. unavailable while the circuit is open, and after kWaitMost.
  Task<Result<Pass>> enter();
  [[nodiscard]] bool is_open() const;

 private:
  /// A turn, nothing while all are taken, or the refusal of an open circuit.
  [[nodiscard]] Result<bool> try_enter();
  void leave();
  void note(bool answered);

  const std::size_t requests_;
  Clock& clock_;
  Event left_;
  mutable Mutex mutex_;
  std::size_t running_ TARN_GUARDED_BY(mutex_) = 0;
  unsigned failures_ TARN_GUARDED_BY(mutex_) = 0;  // in a row
  BootTime refuses_until_ TARN_GUARDED_BY(mutex_){0};
  std::chrono::seconds open_for_ TARN_GUARDED_BY(mutex_) = kOpenFirst;
};

/// The gates of all servers. Thread-safe.
class ServerGates {
 public:
  /// `requests`: at a time to each server.
  ServerGates(std::size_t requests, Clock& clock) : requests_(requests), clock_(clock) {}
  /// `server`: "https://host:443"
  [[nodiscard]] std::shared_ptr<ServerGate> of(const std::string& server);
  /// Number of open circuits.
  [[nodiscard]] std::size_t open() const;

 private:
  const std::size_t requests_;
  Clock& clock_;
  mutable Mutex mutex_;
  std::map<std::string, std::shared_ptr<ServerGate>> gates_ TARN_GUARDED_BY(mutex_);
};

}  // namespace tarn::target
