#include "common/cluster/place/hand_over.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/base/fail_point.h"

namespace tarn::cluster {
namespace {

/// True if `self` owns the name in `map` and did in every version from `since` on.
bool owned_since(const Ownership& map, const std::string& self, std::uint64_t digest,
                 std::uint64_t since) {
  if (map.current.owner(digest) != self) return false;
  return std::all_of(map.past.begin(), map.past.end(), [&](const PastEpoch& set) {
    return set.last < since || set.nodes.owner(digest) == self;
  });
}

}  // namespace

const TargetStatus* OwnershipState::find(std::string_view id) const {
  const auto found = std::find_if(live.begin(), live.end(),
                                  [&](const TargetStatus& status) { return status.id == id; });
  return found == live.end() ? nullptr : &*found;
}

Status all_can_code(const OwnershipState& state) {
  for (const Member& member : state.map->members) {
    const TargetStatus* status = state.find(member.id);
    if (status == nullptr)
      return fail(Errc::unavailable,
                  "target t[{}] is away, so whether it can keep coded objects is not known: start "
                  "it, or remove it from the cluster",
                  member.id);
    if (!status->coding)
      return fail(Errc::unsupported,
                  "target t[{}] runs a version that cannot keep coded objects: upgrade it first",
                  member.id);
  }
  return {};
}

Generation make_generation(std::uint64_t map_version, std::uint64_t incarnation,
                           std::uint64_t counter) {
  if (!SAFETY("safety.incarnation")) incarnation = 0;
  return {map_version, incarnation, counter};
}

void HandOver::learn(std::shared_ptr<const OwnershipState> state) {
  if (state_ && state->revision <= state_->revision) return;
  const bool other_map = !state_ || state_->map->version != state->map->version;
  state_ = std::move(state);
  if (!other_map) return;
  for (auto& [id, write] : writes_) {
    write.older = write.older || write.committing;
    if (write.moved) continue;
    write.moved = !owned_since(*state_->map, self_, write.digest, write.map_version);
    if (!write.moved || !SAFETY("safety.version_of_owner"))
      write.map_version = state_->map->version;
  }
}

bool HandOver::listed_elsewhere(const std::string& uname) const {
  if (!SAFETY("safety.wait_for_listed")) return false;
  return std::any_of(state_->live.begin(), state_->live.end(), [&](const TargetStatus& status) {
    return status.id != self_ && std::find(status.under_way.begin(), status.under_way.end(),
                                           uname) != status.under_way.end();
  });
}

HandOver::Verdict HandOver::may_begin(const std::string& uname, std::int64_t lease) const {
  if (!state_ || (SAFETY("safety.learn_before_lease") && state_->revision < lease))
    return Verdict::stale;
  const Ownership& map = *state_->map;
  const std::uint64_t digest = placement_digest(uname);
  if (writer_of(map, digest) != self_) return Verdict::not_owner;
  for (const PastEpoch& set : map.past)
    if (state_->settled <= set.last && set.nodes.owner(digest) != self_) return Verdict::wait;
  return listed_elsewhere(uname) ? Verdict::wait : Verdict::yes;
}

HandOver::WriteId HandOver::begin(std::string uname, std::int64_t lease) {
  TARN_CHECK(may_begin(uname, lease) == Verdict::yes);
  const std::uint64_t digest = placement_digest(uname);
  writes_[++last_] =
      Write{std::move(uname), digest, lease, state_->map->version, false, false, false};
  return last_;
}

bool HandOver::commit(WriteId write, std::int64_t lease) {
  const auto found = writes_.find(write);
  TARN_CHECK(found != writes_.end());
  if (!under_its_lease(found->second, lease)) return false;
  found->second.committing = true;
  return true;
}

bool HandOver::may_acknowledge(WriteId write, std::int64_t lease) const {
  const auto found = writes_.find(write);
  TARN_CHECK(found != writes_.end());
  return under_its_lease(found->second, lease);
}

bool HandOver::under_its_lease(const Write& write, std::int64_t lease) {
  if (!SAFETY("safety.same_lease")) return lease != 0;
  return lease != 0 && write.lease == lease;
}

std::uint64_t HandOver::map_version(WriteId write) const {
  const auto found = writes_.find(write);
  TARN_CHECK(found != writes_.end());
  return found->second.map_version;
}

void HandOver::end(WriteId write) { writes_.erase(write); }

std::optional<HandOver::WriteId> HandOver::begin_copy(std::string uname, const ReplicaCount& count,
                                                      const CopySender& sender) {
  const std::uint64_t digest = placement_digest(uname);
  if (!state_ || !accepts_copy(*state_->map, self_, digest, count, sender)) return std::nullopt;
  writes_[++last_] = Write{std::move(uname), digest, 0, state_->map->version, false, true, true};
  return last_;
}

bool HandOver::is_quiescent(const std::string& uname) const {
  if (!SAFETY("safety.answer_when_quiescent")) return true;
  return std::none_of(writes_.begin(), writes_.end(), [&](const auto& entry) {
    return entry.second.committing && entry.second.uname == uname;
  });
}

TargetStatus HandOver::status(bool moved) const {
  TargetStatus out;
  out.id = self_;
  if (!state_) return out;
  out.map_version = state_->map->version;
  for (const auto& [id, write] : writes_) {
    if (write.older) moved = false;
    if (!write.moved) continue;
    moved = false;
    if (!write.copy) out.under_way.push_back(write.uname);
  }
  if (moved) out.moved = out.map_version;
  return out;
}

}  // namespace tarn::cluster
