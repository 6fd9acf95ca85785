#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/ids.h"
#include "common/base/mutex.h"

namespace tarn::target {

/// Last access to each object of a drive, to the second: the order in which objects are evicted.
///
/// A table of fixed size, four bytes a slot; the hash of a name chooses the slot. Names that share
/// one share the newest access, so an object may look more recently used than it is, never less.
/// A note costs one hash and at most one store to memory. The table is saved now and then. A crash
/// loses what was noted since: such objects look older than they are. Thread-safe; the memory is
/// taken at the first note.
class AccessTimes {
 public:
  /// A slot for each 4 MiB of the drive, between these bounds: 16 MiB of memory at most.
  static constexpr std::uint64_t kBytesOfDrivePerSlot = 4U << 20U;
  static constexpr std::size_t kSlotsMin = 1U << 16U;
  static constexpr std::size_t kSlotsMax = 1U << 22U;

  /// `since`: the access time of objects that nothing was ever noted of.
  explicit AccessTimes(WallTime since);

  /// Chooses the number of slots. Before the first note.
  void set_drive_bytes(std::uint64_t bytes);
  /// Notes an access at `now`. An older one than the noted changes nothing.
  void note(BucketId bucket, std::string_view name, WallTime now);
  /// Seconds since the epoch.
  [[nodiscard]] std::uint32_t last(BucketId bucket, std::string_view name) const;

  /// True if something was noted since the last encode() or load().
  [[nodiscard]] bool has_changed() const { return changed_; }
  /// The table as bytes for load().
  [[nodiscard]] std::string encode();
  /// Takes over a saved table, of whatever size, and its `since`. corrupt, and no change, when it
  /// is none. Before the first note.
  Status load(std::string_view saved);

 private:
  using Slot = std::atomic<std::uint32_t>;
  [[nodiscard]] Slot* slots() const { return slots_.load(std::memory_order_acquire); }
  Slot* make_slots();

  std::size_t count_ = kSlotsMin;  // a power of two
  std::uint32_t since_;
  Mutex making_;
  // NOLINTNEXTLINE(modernize-avoid-c-arrays): of atomics
  std::unique_ptr<Slot[]> own_slots_ TARN_GUARDED_BY(making_);
  std::atomic<Slot*> slots_{nullptr};
  std::atomic<bool> changed_{false};
};

}  // namespace tarn::target
