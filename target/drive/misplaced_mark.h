#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include "common/base/check.h"
#include "common/base/error.h"
#include "common/base/mutex.h"

namespace tarn::target {

/// Mark of a drive that may hold records whose place is another drive: then every look-up of a name
/// that is not in place visits it, too. Set before such a record is on its way to the drive;
/// cleared by the caller that has looked through the whole drive and found none, if none was on its
/// way meanwhile. Thread-safe.
class MisplacedMark {
 public:
  [[nodiscard]] bool is_set() const { return set_.load(); }
  void set(bool value) { set_ = value; }

  /// A record that does not belong here is on its way, as long as this lives.
  class [[nodiscard]] Coming {
   public:
    explicit Coming(MisplacedMark& mark) : mark_(mark) {
      const MutexLock lock(mark_.mutex_);
      ++mark_.coming_;
      ++mark_.came_;
      mark_.set_ = true;
    }
    ~Coming() {
      const MutexLock lock(mark_.mutex_);
      TARN_CHECK(mark_.coming_ > 0);
      --mark_.coming_;
    }
    Coming(const Coming&) = delete;
    Coming& operator=(const Coming&) = delete;

   private:
    MisplacedMark& mark_;
  };

  /// Asked before the drive is looked through; nothing while a record is on its way.
  [[nodiscard]] std::optional<std::uint64_t> moment() const {
    const MutexLock lock(mutex_);
    if (coming_ > 0) return std::nullopt;
    return came_;
  }
  /// Clears the mark when no record was on its way since `before`: `commit` makes that durable.
  /// Returns true if it is clear now.
  template <class Commit>
  [[nodiscard]] Result<bool> clear(std::uint64_t before, const Commit& commit) {
    // Held meanwhile: the note of a record that comes must not be overtaken by ours.
    const MutexLock lock(mutex_);
    if (came_ != before) return false;
    TRY_OK(commit());
    set_ = false;
    return true;
  }

 private:
  std::atomic<bool> set_{false};
  mutable Mutex mutex_;
  std::uint64_t coming_ TARN_GUARDED_BY(mutex_) = 0;
  std::uint64_t came_ TARN_GUARDED_BY(mutex_) = 0;
};

}  // namespace tarn::target
