#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/mutex.h"
#include "common/cluster/node/membership.h"
#include "common/cluster/place/hand_over.h"
#include "common/cluster/state/cluster_view.h"

namespace tarn::target {

/// This target's part in the hand-over of ownership (docs/decisions/011): a cluster::HandOver under
/// one mutex, and what the membership reports of it to the cluster. It learns the newest state of
/// the cluster before it decides anything. Thread-safe; never waits for I/O. `view` and
/// `membership` must outlive it, and it all of its Writes.
class OwnedNames {
 public:
  using Verdict = cluster::HandOver::Verdict;

  OwnedNames(std::string self, const cluster::ClusterView& view, cluster::Membership& membership)
      : view_(view), membership_(membership), hand_over_(std::move(self)) {}

  /// A write, or the taking of a copy, that has begun; ends when it dies. An empty one does
  /// nothing.
  class Write {
   public:
    Write() = default;
    ~Write();
    Write(Write&& other) noexcept : of_(std::exchange(other.of_, nullptr)), id_(other.id_) {}
    Write& operator=(Write&& other) noexcept {
      std::swap(of_, other.of_);
      std::swap(id_, other.id_);
      return *this;
    }

    [[nodiscard]] explicit operator bool() const { return of_ != nullptr; }
    /// Right before its record goes to a drive: the map version of its generation. Nothing when it
    /// must not, because the lease under which it began has ended.
    [[nodiscard]] std::optional<std::uint64_t> commit() const;
    /// The state in force here now; null when the name has had another owner since it began, even
    /// if it is ours again.
    [[nodiscard]] std::shared_ptr<const cluster::OwnershipState> tenure() const;
    /// Right before it is acknowledged.
    [[nodiscard]] bool may_acknowledge() const;

   private:
    friend class OwnedNames;
    Write(OwnedNames& of, cluster::HandOver::WriteId id) : of_(&of), id_(id) {}
    OwnedNames* of_ = nullptr;
    cluster::HandOver::WriteId id_ = 0;
  };

  /// yes: the write has begun and is in `out`.
  [[nodiscard]] Verdict begin(const std::string& uname, Write& out);
  /// Begins the receipt of a copy from an older replica; nothing when it is refused
  /// (HandOver::begin_copy).
  [[nodiscard]] std::optional<Write> begin_copy(const std::string& uname,
                                                const cluster::ReplicaCount& count,
                                                const cluster::CopySender& sender);
  [[nodiscard]] bool is_quiescent(const std::string& uname);
  /// No record of a name that is another's is on its way to a drive.
  [[nodiscard]] bool others_are_quiescent();
  [[nodiscard]] bool idle();
  /// The state in force here now: the newest that this node knows.
  [[nodiscard]] std::shared_ptr<const cluster::OwnershipState> state();

  /// Sets DriveList::drive_set, which the cluster is to know.
  void take_drive_set(std::uint64_t drive_set);
  /// Sets DrivesAway::believed_lost(), which the cluster is to know.
  void take_lost_drives(std::uint64_t lost_drives);
  /// Sets the number of drives of the target, which the cluster is to know.
  void take_drives(std::uint32_t drives);
  /// True if the map has the newest drive set. Until then this node is authoritative for no name of
  /// which other targets have copies: it may have lost what it had.
  [[nodiscard]] bool drive_set_is_known() const;

  /// Status of this node for the cluster, for the membership.
  [[nodiscard]] cluster::LiveRecord status();
  /// True if all writes that are under way are of names of ours.
  [[nodiscard]] bool only_ours_under_way();
  /// Notes that no drive holds a record of a name that is another's by this version of the map.
  /// Precondition: the version was in force, with only_ours_under_way(), before the drives were
  /// looked through.
  void holds_only_ours(std::uint64_t map_version);

 private:
  void learn() TARN_REQUIRES(mutex_);
  void end(cluster::HandOver::WriteId id);

  const cluster::ClusterView& view_;
  cluster::Membership& membership_;
  std::atomic<std::uint64_t> drive_set_ = 0;
  std::atomic<std::uint32_t> drives_ = 0;
  std::atomic<std::uint64_t> lost_drives_ = 0;
  Mutex mutex_;
  cluster::HandOver hand_over_ TARN_GUARDED_BY(mutex_);
  std::vector<cluster::HandOver::WriteId> committing_ TARN_GUARDED_BY(mutex_);
  std::uint64_t only_ours_ TARN_GUARDED_BY(mutex_) = 0;
};

}  // namespace tarn::target
