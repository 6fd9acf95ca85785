#pragma once

#include <memory>
#include <utility>

#include "common/base/mutex.h"

namespace tarn {

/// An immutable value that is replaced whole. Readers take one pointer at the start of their work
/// and keep it to the end. A mutex and not std::atomic<shared_ptr>, which TSan reports in
/// libstdc++ 12.
template <class T>
class Snapshot {
 public:
  explicit Snapshot(std::shared_ptr<const T> value = std::make_shared<const T>())
      : value_(std::move(value)) {}

  [[nodiscard]] std::shared_ptr<const T> get() const {
    const MutexLock lock(mutex_);
    return value_;
  }
  void set(std::shared_ptr<const T> value) {
    const MutexLock lock(mutex_);
    value_.swap(value);  // the old value dies after the lock is released
  }

 private:
  mutable Mutex mutex_;
  std::shared_ptr<const T> value_ TARN_GUARDED_BY(mutex_);
};

}  // namespace tarn
