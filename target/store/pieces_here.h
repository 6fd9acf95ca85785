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
class PiecesHere;

/// A drive, as the choice of one for a new piece sees it.
struct DriveView {
  enum class Room : std::uint8_t { free, above_watermark, none };
  bool takes = false;      ///< it is in service and takes new files
  std::size_t pieces = 0;  ///< other pieces of the set that lie there, or are being written
  Room room = Room::free;  ///< for this piece
  std::uint64_t left = 0;  ///< bytes free
};
/// Drives to try for the `rank`-th piece of a set on this target, as indexes of `views`, the best
/// first. Those without a piece of the set come first: below the high watermark beginning at
/// `rank`, then those above it, the emptiest first, so that they are full at the same time. Those
/// that have one follow, with the fewest first, only when there are fewer drives that take files
/// than pieces. `views`: all drives, in the order in which the name prefers them. Pure.
[[nodiscard]] std::vector<std::size_t> drives_for_piece(std::span<const DriveView> views,
                                                        std::size_t rank);

/// Of drives that have the same piece, in the order in which the name prefers them: which one is to
/// keep it, the best first, as indexes of `views`. Those that take files before those that are
/// being emptied; then those with the fewest other pieces of the set, since these die together;
/// then those with room; then as the name prefers them. Pure.
[[nodiscard]] std::vector<std::size_t> best_to_keep(std::span<const DriveView> views);

/// A piece that is being written. As long as it lives its drive counts as one that has a piece of
/// the set. Nothing, unless PiecesHere::seal() made a piece of it; its end removes the file.
class NewPiece {
 public:
  NewPiece(PiecesHere& all, PieceKey key, std::unique_ptr<WorkFile> file);
  ~NewPiece();
  NewPiece(const NewPiece&) = delete;
  NewPiece& operator=(const NewPiece&) = delete;

  [[nodiscard]] const PieceKey& key() const { return key_; }
  [[nodiscard]] WorkFile& file() { return *file_; }

 private:
  PiecesHere& all_;
  const PieceKey key_;
  std::unique_ptr<WorkFile> file_;
};

/// The pieces on all drives of this target (docs/decisions/019-coded-objects.md). No other code
/// needs to know on which drive one lies. It is looked for on all of them, so pieces move between
/// drives without notice. Of two of one key on two drives, one of which was away, the higher
/// generation counts. Drives that are out of service are not asked. Thread-safe.
class PiecesHere {
 public:
  /// Where a new piece is to go.
  struct Wanted {
    std::size_t rank = 0;                ///< the how-manieth piece of its set on this target
    std::optional<std::uint64_t> bytes;  ///< of its file, if that is known
    const Drive* not_on = nullptr;       ///< a drive that it may not be on
    bool alone = false;                  ///< only on a drive that has no other piece of the set
  };

  explicit PiecesHere(ObjectStore& store) : store_(store) {}

  /// A new work file for a piece of `name`, whose set and index are those of `key`. no_space when
  /// no drive takes it, unavailable when none takes files at all. It must not outlive this.
  Task<Result<std::unique_ptr<NewPiece>>> create(ObjectName name, PieceKey key, Wanted wanted);
  /// Drive::seal(), unless a drive in service has the piece as new. Those on other drives that are
  /// not newer go.
  Task<Result<Drive::Sealed>> seal(NewPiece& piece, Drive::SealOrder order);
  /// The same for a copy of what lies on `from`, which was read through: under the highest
  /// generation that the piece has on any drive by now, in place of all of them. False: it is not
  /// on `from` any more.
  Task<Result<bool>> replace(NewPiece& piece, Drive::SealOrder order, Drive& from);

  /// Where the piece is, and its record; nothing when no drive in service has it.
  Task<Result<std::optional<Located>>> find(PieceKey key);
  /// Drive::open_piece(); object_not_found as find(), unavailable when a drive is away that may
  /// have it. timeout, with `unless_slow`, when it is on a slow drive.
  Task<Result<std::shared_ptr<OpenObject>>> open(PieceKey key, bool unless_slow = false);
  /// Gives it a generation that is at least this one, durably. False: as find().
  Task<Result<bool>> raise(PieceKey key, Generation generation);
  /// Drops it on all drives, as far as its generation there is not above `up_to`. True if anything
  /// went. An error of a drive is told after the others have dropped it.
  Task<Result<bool>> drop(PieceKey key, Generation up_to);
  /// Leaves a piece that lies on several drives, one of which was away, on one of them. Keeps it on
  /// the first of best_to_keep() on which all of it can be read, under the highest generation that
  /// it has anywhere. Only then it goes from the others, which have the same bytes. Returns how
  /// many went; 0 also when they are no longer what they were. An error when it can be read
  /// nowhere, and of `toll`, which is asked before anything is read: all stay.
  Task<Result<std::size_t>> keep_one(ObjectName name, PieceKey key, Toll toll);
  /// True if there is any piece here, of whatever bucket, or one being written. An error when a
  /// drive cannot tell.
  Task<Result<bool>> any();

 private:
  friend class NewPiece;
  struct Writing {
    std::uint8_t index;
    const Drive* drive;
  };
  [[nodiscard]] bool has_full_view() const;
  [[nodiscard]] Task<NameLocks::Held> lock(const PieceKey& key);
  Task<Result<std::vector<Located>>> find_all(PieceKey key);
  Task<std::size_t> drop_others(PieceKey key, Generation up_to, const Drive* but);
  [[nodiscard]] std::vector<std::shared_ptr<Drive>> in_order(const std::string& uname) const;
  Task<Result<std::size_t>> keep_on(Drive& drive, PieceKey key, io::FileName file);
  Task<DriveView> view(Drive& drive, const PieceKey& key, const Wanted& wanted,
                       const std::vector<Writing>& writing);
  [[nodiscard]] std::vector<Writing> being_written(const PieceKey& of_set) const;

  ObjectStore& store_;
  mutable Mutex mutex_;
  std::multimap<PieceKey, const Drive*> writing_ TARN_GUARDED_BY(mutex_);
};

}  // namespace tarn::target
