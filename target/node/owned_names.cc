#include "target/node/owned_names.h"

#include <algorithm>

#include "common/base/fail_point.h"

namespace tarn::target {

/// Before each decision: whatever the view shows is in force here from then on.
void OwnedNames::learn() { hand_over_.learn(view_.state()->ownership); }

OwnedNames::Verdict OwnedNames::begin(const std::string& uname, Write& out) {
  const MutexLock lock(mutex_);
  learn();
  const std::int64_t lease = membership_.lease_now();
  if (lease == 0) return Verdict::stale;
  const Verdict verdict = hand_over_.may_begin(uname, lease);
  if (verdict == Verdict::yes) out = Write(*this, hand_over_.begin(uname, lease));
  return verdict;
}

std::optional<OwnedNames::Write> OwnedNames::begin_copy(const std::string& uname,
                                                        const cluster::ReplicaCount& count,
                                                        const cluster::CopySender& sender) {
  const MutexLock lock(mutex_);
  learn();
  const auto id = hand_over_.begin_copy(uname, count, sender);
  if (!id) return std::nullopt;
  committing_.push_back(*id);
  return Write(*this, *id);
}

bool OwnedNames::is_quiescent(const std::string& uname) {
  const MutexLock lock(mutex_);
  learn();
  return hand_over_.is_quiescent(uname);
}

/// A write keeps its old map version once its name has another owner.
bool OwnedNames::others_are_quiescent() {
  const MutexLock lock(mutex_);
  learn();
  const std::uint64_t version = hand_over_.state()->map->version;
  return std::none_of(committing_.begin(), committing_.end(),
                      [&](const auto id)
                          TARN_REQUIRES(mutex_) { return hand_over_.map_version(id) != version; });
}

bool OwnedNames::idle() {
  const MutexLock lock(mutex_);
  return hand_over_.idle();
}

std::shared_ptr<const cluster::OwnershipState> OwnedNames::state() {
  const MutexLock lock(mutex_);
  learn();
  return hand_over_.state();
}

cluster::LiveRecord OwnedNames::status() {
  const auto known = view_.state();
  const MutexLock lock(mutex_);
  learn();
  const cluster::TargetStatus status =
      hand_over_.status(only_ours_ != 0 && only_ours_ == hand_over_.state()->map->version);
  cluster::LiveRecord out;
  out.map_version = status.map_version;
  out.bmd_version = known->bmd.version;
  out.under_way = status.under_way;
  out.moved = status.moved;
  out.drive_set = drive_set_;
  out.drives = drives_;
  out.coding = true;
  out.lost_drives = lost_drives_;
  return out;
}

void OwnedNames::take_drive_set(std::uint64_t drive_set) {
  if (drive_set_.exchange(drive_set) != drive_set) membership_.status_changed();
}

void OwnedNames::take_lost_drives(std::uint64_t lost_drives) {
  if (lost_drives_.exchange(lost_drives) != lost_drives) membership_.status_changed();
}

void OwnedNames::take_drives(std::uint32_t drives) {
  if (drives_.exchange(drives) != drives) membership_.status_changed();
}

bool OwnedNames::drive_set_is_known() const {
  const auto state = view_.state();
  const cluster::Node* self = state->map.find(membership_.self().id);
  return self != nullptr && self->drive_set == drive_set_;
}

bool OwnedNames::only_ours_under_way() {
  const MutexLock lock(mutex_);
  learn();
  return hand_over_.status(true).moved != 0;
}

void OwnedNames::holds_only_ours(std::uint64_t map_version) {
  {
    const MutexLock lock(mutex_);
    only_ours_ = map_version;
  }
  membership_.status_changed();
}

void OwnedNames::end(cluster::HandOver::WriteId id) {
  bool told = false;
  {
    const MutexLock lock(mutex_);
    // A new owner may be waiting for it.
    told = hand_over_.map_version(id) != hand_over_.state()->map->version;
    hand_over_.end(id);
    std::erase(committing_, id);
  }
  if (told) membership_.status_changed();
}

OwnedNames::Write::~Write() {
  if (of_ != nullptr) of_->end(id_);
}

std::optional<std::uint64_t> OwnedNames::Write::commit() const {
  if (of_ == nullptr) return std::nullopt;
  const MutexLock lock(of_->mutex_);
  of_->learn();
  if (!of_->hand_over_.commit(id_, of_->membership_.lease_now())) return std::nullopt;
  of_->committing_.push_back(id_);
  return of_->hand_over_.map_version(id_);
}

std::shared_ptr<const cluster::OwnershipState> OwnedNames::Write::tenure() const {
  const MutexLock lock(of_->mutex_);
  of_->learn();
  if (SAFETY("safety.one_tenure") && !of_->hand_over_.one_tenure(id_)) return nullptr;
  return of_->hand_over_.state();
}

bool OwnedNames::Write::may_acknowledge() const {
  if (of_ == nullptr) return false;
  const MutexLock lock(of_->mutex_);
  return of_->hand_over_.may_acknowledge(id_, of_->membership_.lease_now());
}

}  // namespace tarn::target
