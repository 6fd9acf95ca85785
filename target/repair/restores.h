#pragma once

#include <cstdint>
#include <set>
#include <utility>

#include "common/base/mutex.h"

namespace tarn::target {

/// Sets whose whole is restored by a reader (get_coded.h), one reader of each at a time.
/// Thread-safe.
class Restores {
 public:
  /// The right to restore the full copy of a set, until its end.
  class [[nodiscard]] Turn {
   public:
    Turn() = default;
    Turn(Turn&& other) noexcept : of_(std::exchange(other.of_, nullptr)), set_(other.set_) {}
    Turn& operator=(Turn&&) = delete;
    ~Turn() {
      if (of_ == nullptr) return;
      const MutexLock lock(of_->mutex_);
      of_->sets_.erase(set_);
    }
    /// False: another reader has it.
    [[nodiscard]] bool got() const { return of_ != nullptr; }

   private:
    friend class Restores;
    Turn(Restores& of, std::uint64_t set) : of_(&of), set_(set) {}
    Restores* of_ = nullptr;
    std::uint64_t set_ = 0;
  };

  Turn begin(std::uint64_t set) {
    const MutexLock lock(mutex_);
    return sets_.insert(set).second ? Turn(*this, set) : Turn();
  }

 private:
  Mutex mutex_;
  std::set<std::uint64_t> sets_ TARN_GUARDED_BY(mutex_);
};

}  // namespace tarn::target
