#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/ids.h"
#include "common/cluster/place/ownership.h"

namespace tarn::cluster {

/// Status of a live target, which it writes into the meta store under its lease.
struct TargetStatus {
  std::string id;
  /// The map version that it has put in force: under it, it starts no write for a name that is
  /// another's.
  std::uint64_t map_version = 0;
  /// Writes of names that moved away and are still under way, by uname. A new owner waits until the
  /// name is gone from here, or this status with its lease.
  std::vector<std::string> under_way;
  /// The map version under which it holds no name of another target (rebalance_plan.h).
  std::uint64_t moved = 0;
  /// A number that changes each time its drives have gone or come in a way that may have lost
  /// stored data; 0: not reported.
  std::uint64_t drive_set = 0;
  /// Number of its drives, those included that are away for a while; 0: not reported.
  std::uint32_t drives = 0;
  /// True if it can read records of coded objects, and keep slices of them (docs/decisions/019).
  bool coding = false;
  /// A number that stands for the drives that it believes to be lost; 0: none. When it changes,
  /// copies may be missing, or back.
  std::uint64_t lost_drives = 0;
};

/// All that the cluster agrees on about ownership, as the meta store had it at one revision.
struct OwnershipState {
  std::int64_t revision = 0;
  std::shared_ptr<const Ownership> map;
  /// True if all live targets have put this map version in force: no target writes by an older one,
  /// except the writes in `under_way`.
  std::uint64_t settled = 0;
  std::vector<TargetStatus> live;  ///< of targets that hold a lease, by id

  [[nodiscard]] const TargetStatus* find(std::string_view id) const;
};

/// Ok: all targets of the map can keep coded objects, and report so. Else unavailable when one is
/// not live, unsupported when one runs an older program.
[[nodiscard]] Status all_can_code(const OwnershipState& state);

/// The part of a Generation that distinguishes the starts of a node.
[[nodiscard]] Generation make_generation(std::uint64_t map_version, std::uint64_t incarnation,
                                         std::uint64_t counter);

/// A target's side of the two-step hand-over of ownership: which writes it may start, with which
/// map version they commit, the status that it reports to the cluster. A lease is known by the
/// revision at which the node registered under it: a new lease has another one. Not thread-safe:
/// the node guards it by one mutex, so that a write is either begun under the old map and listed,
/// or not begun.
class HandOver {
 public:
  enum class Verdict : std::uint8_t {
    yes,
    not_owner,  ///< redirect to writer_of()
    wait,       ///< ours, but an older owner may still write: 503 with Retry-After after a while
    stale       ///< our map is older than our lease: learn first
  };
  using WriteId = std::uint64_t;

  explicit HandOver(std::string self) : self_(std::move(self)) {}

  /// Puts a newer state in force; an older one is ignored.
  void learn(std::shared_ptr<const OwnershipState> state);
  [[nodiscard]] const std::shared_ptr<const OwnershipState>& state() const { return state_; }

  /// Decides if a write of `uname` may start now under `lease`.
  [[nodiscard]] Verdict may_begin(const std::string& uname, std::int64_t lease) const;
  /// Starts one that may_begin() allowed. end() must follow, whatever becomes of it.
  WriteId begin(std::string uname, std::int64_t lease);
  /// True if it may commit: only under the lease under which it began. `lease`: the present one, 0
  /// for none. If so, its record is on its way to a drive until end().
  [[nodiscard]] bool commit(WriteId write, std::int64_t lease);
  /// True if this node has owned the name ever since the write began.
  [[nodiscard]] bool one_tenure(WriteId write) const { return !writes_.at(write).moved; }
  /// True if it may be acknowledged: only under the lease under which it began.
  [[nodiscard]] bool may_acknowledge(WriteId write, std::int64_t lease) const;
  /// The map version of its generation: the newest one under which this node owned the name ever
  /// since the write began. So every write of the next owner has a higher one.
  [[nodiscard]] std::uint64_t map_version(WriteId write) const;
  void end(WriteId write);

  /// A copy of a name of ours comes from an older replica. None if it is to be refused
  /// (accepts_copy). Called under the name's lock; end() must follow once it is stored or refused:
  /// until then this node does not report that it holds only names of its own.
  [[nodiscard]] std::optional<WriteId> begin_copy(std::string uname, const ReplicaCount& count,
                                                  const CopySender& sender);

  /// True if no write and no copy is on its way to a drive. A target without records that is not
  /// idle is not empty: it must not join as a new one.
  [[nodiscard]] bool idle() const { return writes_.empty(); }

  /// True if no record of `uname` is on its way to a drive. Only then may this node report its
  /// version of the name to the owner: a record on its way may be stored after the answer. A
  /// committing write outlives the lease and the ownership of its node when the drive hangs.
  [[nodiscard]] bool is_quiescent(const std::string& uname) const;

  /// The status to write into the meta store now. `moved`: no record here belongs elsewhere, and
  /// none was on its way to a drive by an older map: copies that other targets got before may be
  /// less than that.
  [[nodiscard]] TargetStatus status(bool moved) const;

 private:
  struct Write {
    std::string uname;
    std::uint64_t digest = 0;
    std::int64_t lease = 0;
    std::uint64_t map_version = 0;
    bool moved = false;  ///< the name has another owner since
    bool copy = false;
    bool committing = false;  ///< its record is on its way to a drive
    bool older = false;  ///< so it was by an older map: replicas of the present one may lack it
  };
  [[nodiscard]] static bool under_its_lease(const Write& write, std::int64_t lease);
  [[nodiscard]] bool listed_elsewhere(const std::string& uname) const;

  std::string self_;
  std::shared_ptr<const OwnershipState> state_;
  WriteId last_ = 0;
  std::map<WriteId, Write> writes_;
};

}  // namespace tarn::cluster
