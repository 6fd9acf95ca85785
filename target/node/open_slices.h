#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "target/drive/digests.h"
#include "target/drive/index.h"
#include "target/store/slices_here.h"

namespace tarn::target {

/// Names an attempt to write a slice; random, never used twice.
enum class SliceToken : std::uint64_t {};

/// A slice whose bytes have all come, and that is nothing yet.
struct WrittenSlice {
  std::unique_ptr<NewSlice> slice;
  std::uint64_t bytes = 0;         ///< written so far
  std::optional<Digests> digests;  ///< of a full copy
};

/// The slices at a target that were written and not yet sealed, by their tokens. A restart forgets
/// them; their files then go with all other unfinished ones. Thread-safe.
class OpenSlices {
 public:
  /// A writer seals its slice soon, or never will.
  static constexpr std::chrono::seconds kKept{60};

  /// Takes one in. False: there is one with that token, which stays.
  [[nodiscard]] bool add(SliceToken token, WrittenSlice slice, BootTime now) {
    const MutexLock lock(mutex_);
    return slices_.try_emplace(token, Entry{std::move(slice), now}).second;
  }
  /// Takes one out; nothing when there is none (any more).
  [[nodiscard]] std::optional<WrittenSlice> take(SliceToken token) {
    const MutexLock lock(mutex_);
    auto node = slices_.extract(token);
    if (node.empty()) return std::nullopt;
    return std::move(node.mapped().slice);
  }
  /// Drops those that came before `before`. Returns how many.
  std::size_t drop_older(BootTime before) {
    std::vector<Entry> dropped;  // ends outside of the lock
    const MutexLock lock(mutex_);
    for (auto at = slices_.begin(); at != slices_.end();) {
      if (at->second.since >= before) {
        ++at;
        continue;
      }
      dropped.push_back(std::move(at->second));
      at = slices_.erase(at);
    }
    return dropped.size();
  }

 private:
  struct Entry {
    WrittenSlice slice;
    BootTime since;
  };
  Mutex mutex_;
  std::map<SliceToken, Entry> slices_ TARN_GUARDED_BY(mutex_);
};

/// The slice is not needed up to a generation.
struct SliceDrop {
  SliceKey key;
  Generation up_to;
};

/// Slices that are not needed up to a generation, until they are dropped: a while later, so that
/// those who read by an older record end well. Forgotten by a restart: then they are asked about
/// again. Thread-safe.
class SliceDrops {
 public:
  static constexpr std::chrono::seconds kDelay{30};

  void add(SliceDrop drop, BootTime now) {
    const MutexLock lock(mutex_);
    drops_.emplace(now + kDelay, std::move(drop));
  }
  /// Returns those of one bucket.
  [[nodiscard]] std::vector<SliceDrop> of(BucketId bucket) const {
    const MutexLock lock(mutex_);
    std::vector<SliceDrop> out;
    for (const auto& [due, drop] : drops_)
      if (drop.key.bucket == bucket) out.push_back(drop);
    return out;
  }
  /// Takes out what is due by `now`.
  [[nodiscard]] std::vector<SliceDrop> take_due(BootTime now) {
    const MutexLock lock(mutex_);
    std::vector<SliceDrop> due;
    while (!drops_.empty() && drops_.begin()->first <= now) {
      due.push_back(std::move(drops_.begin()->second));
      drops_.erase(drops_.begin());
    }
    return due;
  }

 private:
  mutable Mutex mutex_;
  std::multimap<BootTime, SliceDrop> drops_ TARN_GUARDED_BY(mutex_);
};

}  // namespace tarn::target
