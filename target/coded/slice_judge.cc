#include "target/coded/slice_judge.h"

#include "common/base/check.h"
#include "common/base/fail_point.h"
#include "common/base/gather.h"
#include "common/obs/log.h"
#include "target/coded/holder_calls.h"
#include "target/coded/put_tombstone.h"
#include "target/replica/away_drive.h"
#include "target/replica/newest.h"
#include "target/replica/node_copies.h"
#include "target/replica/recommit.h"

namespace tarn::target {
namespace {

using Verdict = SliceVerdict;

bool slice_judge_names(const io::ObjectRecord& record, const SliceKey& key,
                       const std::string& holder) {
  if (!record.coding || record.coding->set != key.set) return false;
  if (key.index == io::kFullCopy) return record.coding->full_copy == holder;
  return key.index < record.coding->holders.size() && record.coding->holders[key.index] == holder;
}

/// Asks all targets. True if the slices may be all that is left of a version whose record is lost.
Task<bool> may_be_the_last(TargetNode& node, const SliceKey& key, std::size_t k) {
  std::vector<SliceKey> keys(ec::kSlicesMax, key);
  for (std::size_t i = 0; i < keys.size(); ++i) keys[i].index = static_cast<std::uint8_t>(i);
  keys.push_back(key);
  keys.back().index = io::kFullCopy;
  const auto state = node.view.state();
  std::vector<Task<std::vector<SliceSeen>>> asked;
  for (const auto& [id, member] : state->map.nodes)
    if (member.role == cluster::Role::target) asked.push_back(states_at(node, id, keys));
  LeftOfSet left;
  for (const auto& seen : co_await gather(std::move(asked))) {
    TARN_CHECK(seen.size() == keys.size());
    for (std::size_t i = 0; i < keys.size(); ++i) left.add(keys[i].index, seen[i].state);
  }
  co_return left.may_be_the_object(k);
}

/// Notes that the object is not there, when nothing was ever known of it here, or that is
/// forgotten.
Task<Result<Generation>> note_absence(TargetNode& node, const ObjectRequest& wanted,
                                      const OwnedNames::Write& write) {
  CO_TRY_OK(co_await delete_present(node, wanted, {}, write));
  CO_TRY(const auto found, co_await find_here(node, wanted.name));
  if (found.empty()) co_return fail(Errc::unavailable, "the note of its end is not here");
  co_return found.front().record.generation;
}

/// Judges under the name's lock, where nothing of the name is on its way.
Task<Result<Verdict>> judge_with_all(TargetNode& node, const ObjectRequest& wanted,
                                     const std::string& holder, const HeldSlice& slice) {
  CO_TRY(const OwnedNames::Write write, co_await begin_write(node, wanted.name.uname));
  CO_TRY_OK(co_await resolve_copies(node, wanted.name));
  const auto held = co_await node.store.locks().acquire(wanted.name.key());
  CO_TRY(Newest newest, co_await find_newest(node, wanted));
  if (newest.holder != nullptr) co_return Verdict{};  // the version comes here first
  if (newest.record && slice_judge_names(*newest.record, slice.key, holder))
    co_return Verdict{Verdict::Kind::keep};
  if (newest.record && newest.record->generation >= slice.generation)
    co_return Verdict{Verdict::Kind::drop, newest.record->generation};
  CO_FAIL_POINT("judge.before_bump");
  if (!newest.record) {
    const bool last = co_await may_be_the_last(node, slice.key, slice.k);
    if (last && SAFETY("safety.judge_last")) co_return Verdict{};
    CO_TRY(const Generation absent, co_await note_absence(node, wanted, write));
    co_return Verdict{Verdict::Kind::drop, absent};
  }
  if (!SAFETY("safety.judge_bump")) co_return Verdict{Verdict::Kind::drop, slice.generation};
  CO_TRY(const Generation generation, generation_above(node, wanted, write, *newest.record));
  CO_TRY_OK(co_await recommit(node, wanted, write, std::move(newest.here), generation));
  co_return Verdict{Verdict::Kind::drop, generation};
}

Task<Result<Verdict>> judge_one(TargetNode& node, const std::string& holder,
                                const HeldSlice& slice) {
  const auto state = node.view.state();
  const auto* bucket = state->bmd.find(slice.key.bucket);
  if (bucket == nullptr) co_return fail(Errc::bucket_not_found, "the bucket is gone");
  const ObjectName name = name_in(*bucket, slice.key.name);
  const auto digest = cluster::placement_digest(name.uname);
  if (cluster::writer_of(*state->ownership->map, digest) != node.id) co_return Verdict{};
  // Most are needed, and that needs no lock.
  CO_TRY(const auto here, co_await find_here(node, name));
  if (!here.empty() && pending_by(here.front().record).empty() &&
      slice_judge_names(here.front().record, slice.key, holder))
    co_return Verdict{Verdict::Kind::keep};
  CO_TRY(const ObjectRequest wanted, request_of(node, name));
  co_return co_await judge_with_all(node, wanted, holder, slice);
}

}  // namespace

void LeftOfSet::add(std::size_t index, SliceState state) {
  waits_ = waits_ || state == SliceState::waiting;
  if (state != SliceState::good) return;
  if (index == io::kFullCopy)
    full_copy_ = true;
  else
    slices_.insert(index);
}

bool LeftOfSet::may_be_the_object(std::size_t k) const {
  return waits_ || full_copy_ || slices_.size() >= k;
}

Task<std::vector<SliceVerdict>> judge(TargetNode& node, std::string holder,
                                      std::vector<HeldSlice> slices) {
  std::vector<SliceVerdict> out;
  for (const HeldSlice& slice : slices) {
    const auto verdict = co_await judge_one(node, holder, slice);
    out.push_back(verdict ? *verdict : Verdict{});
    if (verdict) continue;
    obs::log("repair").debug("slice not judged object={} slice={} err={}", slice.key.name,
                             slice.key.index, verdict.error().message);
  }
  co_return out;
}

}  // namespace tarn::target
