#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>

#include "common/base/async.h"
#include "common/base/mutex.h"

namespace tarn::target {

/// One writer a name: commits and deletes of a name wait for each other, first come first served.
/// Waiting suspends the coroutine, not its loop. Thread-safe.
class NameLocks {
 public:
  /// Holds the name until it dies; the next one in line is then resumed on its own loop.
  class Held {
   public:
    Held() = default;
    Held(NameLocks& locks, std::string name) : locks_(&locks), name_(std::move(name)) {}
    ~Held();
    Held(Held&& other) noexcept;
    Held& operator=(Held&& other) noexcept;

   private:
    NameLocks* locks_ = nullptr;
    std::string name_;
  };

  Task<Held> acquire(std::string name);
  /// True if the name is held right now.
  [[nodiscard]] bool is_held(const std::string& name) const;

 private:
  void release(const std::string& name);

  mutable Mutex mutex_;
  /// Present: held. The queue: callers that wait.
  std::unordered_map<std::string, std::deque<std::function<void()>>> names_ TARN_GUARDED_BY(mutex_);
};

}  // namespace tarn::target
