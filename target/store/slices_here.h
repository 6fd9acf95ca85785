#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/base/async.h"
#include "common/base/error.h"
#include "common/base/mutex.h"
#include "target/drive/drive.h"
#include "target/drive/toll.h"
#include "target/store/name_locks.h"
#include "target/store/object_name.h"

namespace tarn::target {

class ObjectStore;
class SlicesHere;

/// A drive, as the choice of one for a new slice sees it.
struct DriveView {
  enum class Room : std::uint8_t { free, above_watermark, none };
  bool takes = false;      ///< in service, and takes new files
  std::size_t slices = 0;  ///< other slices of the set that lie there, or are being written
  Room room = Room::free;  ///< for this slice
  std::uint64_t left = 0;  ///< bytes free
};
/// Drives to try for the `rank`-th slice of a set on this target, as indexes of `views`, the best
/// first. Those without a slice of the set come first: below the high watermark beginning at
/// `rank`, then those above it, the emptiest first, so that they are full at the same time. Those
/// that have one follow, with the fewest first, only when there are fewer drives that take files
/// than slices. `views`: all drives, in the order in which the name prefers them. Pure.
[[nodiscard]] std::vector<std::size_t> drives_for_slice(std::span<const DriveView> views,
                                                        std::size_t rank);

/// Chooses among drives that have the same slice, in the order in which the name prefers them,
/// which one is to keep it: the best first, as indexes of `views`. Those that take files before
/// those that are being emptied; then those with the fewest other slices of the set, since these
/// die together; then those with room; then as the name prefers them. Pure.
[[nodiscard]] std::vector<std::size_t> best_to_keep(std::span<const DriveView> views);

/// A slice that is being written. As long as it lives its drive counts as one that has a slice of
/// the set. Nothing, unless SlicesHere::seal() made a slice of it; its end removes the file.
class NewSlice {
 public:
  NewSlice(SlicesHere& all, SliceKey key, std::unique_ptr<WorkFile> file);
  ~NewSlice();
  NewSlice(const NewSlice&) = delete;
  NewSlice& operator=(const NewSlice&) = delete;

  [[nodiscard]] const SliceKey& key() const { return key_; }
  [[nodiscard]] WorkFile& file() { return *file_; }

 private:
  SlicesHere& all_;
  const SliceKey key_;
  std::unique_ptr<WorkFile> file_;
};

/// The slices on all drives of this target (docs/decisions/019-coded-objects.md). No other code
/// needs to know on which drive one lies. It is looked for on all of them, so slices move between
/// drives without notice. Of two of one key on two drives, one of which was away, the higher
/// generation counts. Drives that are out of service are not asked. Thread-safe.
class SlicesHere {
 public:
  /// Needs of a new slice for a place.
  struct Wanted {
    std::size_t rank = 0;                ///< the how-manieth slice of its set on this target
    std::optional<std::uint64_t> bytes;  ///< of its file, if that is known
    const Drive* not_on = nullptr;       ///< a drive that it may not be on
    bool alone = false;                  ///< only on a drive that has no other slice of the set
  };

  explicit SlicesHere(ObjectStore& store) : store_(store) {}

  /// A new work file for a slice of `name`, whose set and index are those of `key`. no_space when
  /// no drive takes it, unavailable when none takes files at all. It must not outlive this.
  Task<Result<std::unique_ptr<NewSlice>>> create(ObjectName name, SliceKey key, Wanted wanted);
  /// Drive::seal(), unless a drive in service has the slice as new. Those on other drives that are
  /// not newer go.
  Task<Result<Drive::Sealed>> seal(NewSlice& slice, Drive::SealOrder order);
  /// The same for a copy of what lies on `from`, which was read through: under the highest
  /// generation that the slice has on any drive by now, in place of all of them. False: it is not
  /// on `from` any more.
  Task<Result<bool>> replace(NewSlice& slice, Drive::SealOrder order, Drive& from);

  /// Finds the drive of the slice, and its record; nothing when no drive in service has it.
  Task<Result<std::optional<Located>>> find(SliceKey key);
  /// Drive::open_slice(); object_not_found as find(), unavailable when a drive is away that may
  /// have it. timeout, with `unless_slow`, when it is on a slow drive.
  Task<Result<std::shared_ptr<OpenObject>>> open(SliceKey key, bool unless_slow = false);
  /// Drops it on all drives, as far as its generation there is not above `up_to`. True if anything
  /// went. An error of a drive is returned after the other drives have dropped it.
  Task<Result<bool>> drop(SliceKey key, Generation up_to);
  /// Leaves a slice that lies on several drives, one of which was away, on one of them. Keeps it on
  /// the first of best_to_keep() on which all of it can be read, under the highest generation that
  /// it has anywhere. Only then it goes from the other drives, which have the same bytes. Returns
  /// how many went; 0 also when they are no longer what they were. An error when it can be read
  /// nowhere, and of `toll`, which is asked before anything is read: all stay.
  Task<Result<std::size_t>> keep_one(ObjectName name, SliceKey key, Toll toll);
  /// True if there is any slice here, of whatever bucket, or one being written. An error when a
  /// drive cannot answer.
  Task<Result<bool>> any();

 private:
  friend class NewSlice;
  struct Writing {
    std::uint8_t index;
    const Drive* drive;
  };
  [[nodiscard]] bool has_full_view() const;
  [[nodiscard]] Task<NameLocks::Held> lock(const SliceKey& key);
  Task<Result<std::vector<Located>>> find_all(SliceKey key);
  Task<std::size_t> drop_others(SliceKey key, Generation up_to, const Drive* but);
  [[nodiscard]] std::vector<std::shared_ptr<Drive>> in_order(const std::string& uname) const;
  Task<Result<std::size_t>> keep_on(Drive& drive, SliceKey key, io::FileName file);
  Task<DriveView> view(Drive& drive, const SliceKey& key, const Wanted& wanted,
                       const std::vector<Writing>& writing);
  [[nodiscard]] std::vector<Writing> being_written(const SliceKey& of_set) const;

  ObjectStore& store_;
  mutable Mutex mutex_;
  std::multimap<SliceKey, const Drive*> writing_ TARN_GUARDED_BY(mutex_);
};

}  // namespace tarn::target
