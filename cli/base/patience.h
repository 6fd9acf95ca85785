#pragma once

#include <chrono>
#include <optional>

#include "common/base/async.h"
#include "common/base/error.h"
#include "common/http/client.h"

namespace tarn::cli {

/// Decides how long one command retries while nodes are away. Without any answer yet (the endpoint
/// is wrong, or nothing runs there) it stops at once, or after three connections accepted and
/// closed. Later it stops after `limit` without progress.
class Patience {
 public:
  /// `heard`: this cluster has answered before.
  explicit Patience(std::chrono::milliseconds limit, bool heard = false)
      : limit_(limit), heard_(heard) {}

  /// An answer came; remembers its Retry-After.
  void heard(const http::ClientResponse& answer);
  /// Bytes came: the time begins anew.
  void progressed();
  [[nodiscard]] bool heard_anything() const { return heard_; }

  /// True if the caller is to try again after `error`: waits first, as long as the server asked
  /// for, or longer each time.
  Task<bool> again(Error error);

 private:
  std::chrono::milliseconds limit_;
  std::optional<std::chrono::steady_clock::time_point> failing_since_;
  std::optional<std::chrono::seconds> asked_for_;
  unsigned failures_ = 0;
  bool heard_ = false;
};

}  // namespace tarn::cli
