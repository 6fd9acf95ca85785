#include "target/repair/coded_repair.h"

#include <algorithm>
#include <map>

#include "common/api/upstream_props.h"
#include "common/base/check.h"
#include "common/base/fail_point.h"
#include "common/base/gather.h"
#include "common/base/pause.h"
#include "common/cluster/place/slice_plan.h"
#include "common/obs/log.h"
#include "target/coded/former_slices.h"
#include "target/coded/holder_calls.h"
#include "target/coded/put_tombstone.h"
#include "target/commit/recode.h"
#include "target/drive/slice_ids.h"
#include "target/node/move_pace.h"
#include "target/node/rebuild_pace.h"
#include "target/replica/away_drive.h"
#include "target/replica/newest.h"
#include "target/replica/recommit.h"

namespace tarn::target {
namespace {

using Lane = std::shared_ptr<SliceLane>;

/// Slices that have been written to where they shall be, and are nothing yet. They go unless they
/// are taken out.
struct Written {
  std::vector<Lane> lanes;  // null: could not be
  Written() = default;
  Written(const Written&) = delete;
  Written& operator=(const Written&) = delete;
  ~Written() {
    for (const Lane& lane : lanes)
      if (lane != nullptr) lane->give_up();
  }
  [[nodiscard]] bool any() const {
    return std::any_of(lanes.begin(), lanes.end(),
                       [](const Lane& lane) { return lane != nullptr; });
  }
};

/// Returns the holder in a coding of a slice.
std::string& holder_of(io::Coding& coding, std::uint8_t index) {
  TARN_CHECK(index == io::kFullCopy || index < coding.holders.size());
  return index == io::kFullCopy ? coding.full_copy : coding.holders[index];
}

void note_failed(const ObjectName& name, const Error& error) {
  obs::log("repair").warn("slices not made again object={} err={}", name.object, error.message);
}

/// Notes in `making` that `holder` does not take a slice, or that none could be made for it; `full`
/// gets those that have no room.
void note_refused(RebuildWatch::Making* making, const std::string& holder, const Error& error,
                  std::set<std::string>& full) {
  if (error.code == Errc::no_space && !holder.empty()) full.insert(holder);
  if (making == nullptr || error.code == Errc::cancelled) return;
  if (error.code == Errc::no_space)
    making->note({WaitReason::Why::no_room, holder});
  else
    making->note_failed(error.message);
}

/// Returns the record with those that can be read; the other slices are not asked for.
io::ObjectRecord readable(const CodedObject& object) {
  io::ObjectRecord out = object.record;
  for (std::size_t i = 0; i < object.states.size(); ++i)
    if (object.states[i] != SliceState::good) out.coding->holders[i].clear();
  if (object.full_copy != SliceState::good) out.coding->full_copy.clear();
  return out;
}

/// Makes the slices out of other slices, or, when these are too few, of the full copy.
Task<Result<std::vector<Lane>>> make_anew(TargetNode& node, const CodedObject& object,
                                          const Repair& repair, const io::ObjectRecord& version,
                                          const Toll& toll, const Refused& refused) {
  if (repair.good >= version.coding->k)
    co_return co_await remake_slices(node, object.name, version, repair.anew, TurnFor::background,
                                     toll, refused);
  co_return co_await cut_full_copy(node, object.name, version, repair.anew, toll, refused);
}

/// cancelled when a repair of the name is in vain: it was asked to stop, or the name has another
/// owner by now, which makes its own.
Status check_goes_on(TargetNode& node, const std::string& uname) {
  if (node.rebuild.is_stopped()) return fail(Errc::cancelled, "it was told to stop");
  return check_writer(node, uname);
}

/// Waits until a repair of the name may write so many bytes, which `making` counts then.
Task<Status> coded_repair_pass(TargetNode& node, const std::string& uname, std::uint64_t bytes,
                               RebuildWatch::Making* making) {
  while (true) {
    CO_TRY_OK(check_goes_on(node, uname));
    const auto wait = rebuild_wait(node, bytes);
    if (wait.by == HeldBy::nothing || !SAFETY("safety.rebuild_pace")) break;
    node.rebuild.held(wait.by, node.clock);
    co_await pause(wait.time);
  }
  if (making != nullptr) making->pass(bytes);
  co_return Status();
}

Task<void> write_all(TargetNode& node, const CodedObject& object, const Repair& repair,
                     RebuildWatch::Making* making, std::set<std::string>& full, Written& out) {
  const io::ObjectRecord version = readable(object);
  const Toll toll = [&node, &object, making](std::uint64_t bytes) {
    return coded_repair_pass(node, object.name.uname, bytes, making);
  };
  const Refused refused = [making, &full](const std::string& holder, const Error& error) {
    note_refused(making, holder, error, full);
  };
  const auto failed = [&](const std::string& holder, const Error& error) {
    note_failed(object.name, error);
    refused(holder, error);
  };
  if (!repair.anew.empty()) {
    auto made = co_await make_anew(node, object, repair, version, toll, refused);
    if (made)
      out.lanes = std::move(*made);
    else
      failed("", made.error());
  }
  for (const SliceGoal& goal : repair.moves) {
    auto moved = co_await copy_slice(node, object.name, version, goal, toll);
    if (moved)
      out.lanes.push_back(std::move(*moved));
    else
      failed(goal.holder, moved.error());
  }
  if (!repair.full_copy.empty()) {
    auto full_copy = co_await make_full_copy(node, object.name, version, toll);
    if (full_copy)
      out.lanes.push_back(std::move(*full_copy));
    else
      failed(node.id, full_copy.error());
  }
}

/// Seals those that `which` chooses, at the same time, and takes them out. Returns those sealed.
Task<std::vector<Lane>> seal(Written& written, const io::ObjectAttribute& object,
                             Generation named_by, bool anew,
                             const std::function<bool(const SliceLane&)>& which) {
  std::vector<Lane> chosen;
  std::vector<Task<Status>> seals;
  for (Lane& lane : written.lanes) {
    if (lane == nullptr || !which(*lane)) continue;
    seals.push_back(lane->seal(object, object.record.coding->written, named_by, anew));
    chosen.push_back(std::move(lane));
    lane = nullptr;
  }
  const auto results = co_await gather(std::move(seals));
  std::vector<Lane> out;
  for (std::size_t i = 0; i < chosen.size(); ++i)
    if (results[i]) out.push_back(chosen[i]);
  co_return out;
}

/// Makes what was written count; the record that names it. Under the name's lock; `here` is the
/// newest record, with the coding that the repair began with.
Task<Result<io::ObjectRecord>> commit(TargetNode& node, const ObjectRequest& wanted,
                                      const OwnedNames::Write& write, std::vector<Located> here,
                                      Written& written, const Repair& repair, std::size_t& sealed) {
  const io::ObjectAttribute object{wanted.name.bucket, wanted.bucket.placed_as(),
                                   wanted.name.object, here.front().record};
  io::Coding coding = *object.record.coding;
  const auto in_place = [&](const SliceLane& lane) {
    return holder_of(coding, lane.index()) == lane.holder();
  };
  // The record names these there already.
  sealed += (co_await seal(written, object, object.record.generation, true, in_place)).size();
  if (!written.any() && !repair.drop_full_copy) co_return object.record;
  CO_TRY(const Generation generation, generation_above(node, wanted, write, object.record));
  TARN_CHECK(object.record.generation < generation);
  CO_FAIL_POINT("repair.before_seal");
  const auto moved =
      co_await seal(written, object, generation, false, [](const auto&) { return true; });
  const bool drop_full_copy = repair.drop_full_copy && sealed + moved.size() == repair.slices();
  if (moved.empty() && !drop_full_copy) co_return object.record;
  CO_FAIL_POINT("repair.sealed");
  io::ObjectRecord now = object.record;
  for (const Lane& lane : moved) holder_of(*now.coding, lane->index()) = lane->holder();
  if (drop_full_copy) now.coding->full_copy.clear();
  CO_TRY_OK(co_await recommit(node, wanted, write, std::move(here), generation, &*now.coding));
  sealed += moved.size();
  CO_FAIL_POINT("repair.before_drop");
  now.generation = generation;
  drop_former(node, co_await asio::this_coro::executor, wanted.name, coding, now);
  co_return now;
}

/// Makes what was written for `object` count, whose record becomes the one that names it; how many
/// slices. conflict when the object has changed since.
Task<Result<std::size_t>> make_count(TargetNode& node, CodedObject& object,
                                     const ObjectRequest& wanted, const OwnedNames::Write& write,
                                     Written& written, const Repair& repair) {
  const auto held = co_await node.store.locks().acquire(object.name.key());
  CO_TRY(Newest newest, co_await find_newest(node, wanted));
  if (newest.holder != nullptr || !newest.exists() || newest.record->coding != object.record.coding)
    co_return fail(Errc::conflict, "{} has changed meanwhile", object.name.object);
  std::size_t sealed = 0;
  CO_TRY(object.record,
         co_await commit(node, wanted, write, std::move(newest.here), written, repair, sealed));
  co_return sealed;
}

Task<Status> try_keep_full_copy(TargetNode& node, CodedObject object, Lane lane) {
  Written written;
  written.lanes.push_back(lane);
  CO_TRY_OK(co_await lane->finish());
  CO_TRY(const ObjectRequest wanted, request_of(node, object.name));
  CO_TRY(const OwnedNames::Write write, co_await begin_write(node, object.name.uname));
  CO_TRY_OK(co_await make_count(node, object, wanted, write, written, Repair()));
  co_return Status();
}

}  // namespace

Task<void> ask_holders(TargetNode& node, std::vector<CodedObject>& objects) {
  struct Place {
    std::size_t object;
    std::uint8_t slice;
  };
  struct Call {
    std::vector<SliceKey> keys;
    std::vector<Place> places;
  };
  std::map<std::string, std::vector<Call>> calls;
  const auto ask = [&](std::size_t i, const std::string& holder, std::uint8_t slice) {
    if (holder.empty()) return;
    auto& of_holder = calls[holder];
    if (of_holder.empty() || of_holder.back().keys.size() == kSlicesAtOnce)
      of_holder.emplace_back();
    const ObjectName& name = objects[i].name;
    of_holder.back().keys.push_back(
        {name.bucket, name.object, objects[i].record.coding->set, slice});
    of_holder.back().places.push_back({i, slice});
  };
  for (std::size_t i = 0; i < objects.size(); ++i) {
    const io::Coding& coding = *objects[i].record.coding;
    objects[i].states.assign(coding.holders.size(), SliceState::missing);
    objects[i].drives.assign(coding.holders.size(), 0);
    objects[i].full_copy = SliceState::missing;
    objects[i].unheard.clear();
    for (std::size_t slice = 0; slice < coding.holders.size(); ++slice)
      ask(i, coding.holders[slice], static_cast<std::uint8_t>(slice));
    ask(i, coding.full_copy, io::kFullCopy);
  }
  std::vector<Task<std::vector<SliceSeen>>> asked;
  std::vector<std::vector<Place>> places;
  for (auto& [holder, of_holder] : calls) {
    for (Call& call : of_holder) {
      asked.push_back(states_at(node, holder, std::move(call.keys)));
      places.push_back(std::move(call.places));
    }
  }
  const auto answers = co_await gather(std::move(asked));
  for (std::size_t call = 0; call < answers.size(); ++call) {
    // Answers count by their places: a slice that is taken for missing is made again.
    TARN_CHECK(answers[call].size() == places[call].size());
    for (std::size_t i = 0; i < places[call].size(); ++i) {
      const auto [at, slice] = places[call][i];
      CodedObject& object = objects[at];
      const auto [state, drive, unheard] = answers[call][i];
      if (unheard)
        object.unheard.insert(slice == io::kFullCopy ? object.record.coding->full_copy
                                                     : object.record.coding->holders[slice]);
      (slice == io::kFullCopy ? object.full_copy : object.states[slice]) = state;
      (slice == io::kFullCopy ? object.full_copy_drive : object.drives[slice]) = drive;
    }
  }
}

Repair repair_of(const TargetNode& node, const CodedObject& object,
                 const std::set<std::string>& full) {
  const auto state = node.view.state();
  const auto takes = [&](const std::string& id) {
    return !full.contains(id) && (id == node.id || state->live.contains(id));
  };
  return plan_repair(cluster::standing_members(*state->ownership->map),
                     cluster::placement_digest(object.name.uname),
                     {*object.record.coding, object.states, object.full_copy}, node.id, takes);
}

bool is_to_be_fetched(const TargetNode& node, const ObjectName& name, const Repair& repair) {
  if (!repair.lost) return false;
  const auto state = node.view.state();
  const auto* bucket = state->bmd.find(name.bucket);
  return bucket != nullptr && api::has_upstream(bucket->name);
}

WaitReasons waits_of(const CodedObject& object, const Repair& repair) {
  using Why = WaitReason::Why;
  WaitReasons out;
  if (repair.lost) {
    out.add({Why::too_few_slices, ""});
    return out;
  }
  const io::Coding& coding = *object.record.coding;
  std::set<std::string> holders;
  for (std::size_t i = 0; i < object.states.size(); ++i)
    if (object.states[i] == SliceState::waiting) holders.insert(coding.holders[i]);
  if (!coding.full_copy.empty() && object.full_copy == SliceState::waiting)
    holders.insert(coding.full_copy);
  if (!repair.full_copy_is_for.empty()) holders.insert(repair.full_copy_is_for);
  for (const std::string& holder : holders) {
    const bool is_drive = !object.unheard.contains(holder) && holder != repair.full_copy_is_for;
    out.add({is_drive ? Why::waits_for_drive : Why::waits_for_node, holder});
  }
  if (repair.unplaced > 0) out.add({Why::no_room, ""});
  return out;
}

std::uint64_t bytes_of(const io::ObjectRecord& record, const Repair& repair) {
  const auto layout = ec::Layout::of(geometry_of(*record.coding), record.size);
  if (!layout) return 0;
  const std::uint64_t full_copy = repair.full_copy.empty() ? 0 : record.size;
  return layout->blocks_bytes() * (repair.anew.size() + repair.moves.size()) + full_copy;
}

namespace {

/// Outcome of a repair.
struct Repaired {
  std::size_t made = 0;   ///< slices made anew, and the full copy
  std::size_t moved = 0;  ///< slices copied to where they belong
  bool all = false;       ///< all that was to be done was done
};

/// Does what `repair` wants, under rebuild_wait(), unless the object has changed since (conflict).
/// Slices are written beside what is there, then sealed under the name's lock; a record that names
/// those at other holders makes them count. unavailable when too few slices can be read; cancelled
/// when rebuilds are stopped, or the name is not ours any more. `making`, if not null, counts the
/// bytes that pass, and notes what could not be done. `full` gets the targets that had no room for
/// a slice.
Task<Result<Repaired>> carry_out(TargetNode& node, CodedObject object, Repair repair,
                                 RebuildWatch::Making* making, std::set<std::string>& full) {
  CO_TRY(const ObjectRequest wanted, request_of(node, object.name));
  std::size_t sealed = 0;
  bool any = false;
  for (Repair& part : parts_of(repair)) {
    CO_TRY_OK(check_goes_on(node, object.name.uname));
    Written written;
    co_await write_all(node, object, part, making, full, written);
    // The full copy goes only when all slices are there.
    part.drop_full_copy = part.drop_full_copy && sealed + part.slices() == repair.slices();
    if (!written.any() && !part.drop_full_copy) continue;
    any = true;
    CO_TRY_OK(check_goes_on(node, object.name.uname));
    // Only now: a hand-over of the name waits for this, and not for all the bytes.
    CO_TRY(const OwnedNames::Write write, co_await begin_write(node, object.name.uname));
    CO_TRY(const std::size_t now, co_await make_count(node, object, wanted, write, written, part));
    sealed += now;
  }
  if (!any) {
    CO_TRY_OK(check_goes_on(node, object.name.uname));
    co_return fail(Errc::unavailable, "no slice could be made again");
  }
  Repaired out;
  out.all = sealed == repair.slices();
  out.moved = std::min(sealed, repair.moves.size());
  out.made = sealed - out.moved;
  obs::log("repair").debug("object made whole object={} slices={} of={}", object.name.object,
                           sealed, repair.slices());
  co_return out;
}

/// An object that is kept otherwise than its bucket wants.
Task<bool> recode_for(TargetNode& node, ObjectName name, RebuildWatch::Making* making) {
  const Status done = co_await recode_patiently(node, std::move(name));
  if (!done && making != nullptr && done.error().code != Errc::cancelled)
    making->note_failed(done.error().message);
  co_return done.has_value();
}

/// Evicts an object that has too few slices left: the next read fetches it.
Task<bool> evict_lost(TargetNode& node, ObjectName name, Generation version) {
  const auto wanted = request_of(node, name);
  const Status done =
      wanted ? co_await delete_version(node, *wanted, version) : Status(fail(wanted.error()));
  obs::log("repair").warn("object has too few slices, upstream has it object={} err={}",
                          name.object, done ? "" : done.error().message);
  co_return done.has_value();
}

/// One plan for an object, carried out. `full`: targets that had no room, of this plan's and of
/// those before.
Task<bool> repair_once(TargetNode& node, ObjectName name, RebuildWatch::Making* making,
                       std::set<std::string>& full) {
  // Repairs also a name whose drive is away: another drive may have its record by now. Under the
  // lock other holders are asked if that is the newest.
  auto found = co_await find_here(node, name);
  if (!found && making != nullptr) making->note_failed(found.error().message);
  if (!found || found->empty()) co_return found.has_value();
  const auto state = node.view.state();
  if (const auto* bucket = state->bmd.find(name.bucket);
      bucket != nullptr && is_kept_otherwise(bucket->props, found->front().record))
    co_return co_await recode_for(node, std::move(name), making);
  if (!found->front().record.coding) co_return true;
  std::vector<CodedObject> one{{name, std::move(found->front().record)}};
  co_await ask_holders(node, one);
  Repair repair = repair_of(node, one.front(), full);
  if (is_to_be_fetched(node, name, repair))
    co_return co_await evict_lost(node, std::move(name), one.front().record.generation);
  if (repair.empty()) {
    if (making != nullptr) making->note(waits_of(one.front(), repair));
    co_return repair.missing == 0;
  }
  const auto done =
      co_await carry_out(node, std::move(one.front()), std::move(repair), making, full);
  if (!done) {
    obs::log("repair").warn("object not made whole object={} err={}", name.object,
                            done.error().message);
    if (making != nullptr && done.error().code != Errc::cancelled)
      making->note_failed_unless_known(done.error().message);
  } else if (!done->all && making != nullptr) {
    making->note_failed_unless_known("a target did not keep its slice");
  }
  co_return done && done->all;
}

}  // namespace

Task<bool> repair_object(TargetNode& node, ObjectName name, RebuildWatch::Making* making) {
  std::set<std::string> full;
  for (std::size_t known = 0;; known = full.size()) {
    const bool done = co_await repair_once(node, name, making, full);
    if (done || full.size() == known) co_return done;
  }
}

Task<void> keep_full_copy(TargetNode& node, CodedObject object, std::shared_ptr<SliceLane> lane,
                          Restores::Turn turn) {
  const Status kept = co_await try_keep_full_copy(node, object, std::move(lane));
  if (kept)
    obs::log("repair").info("full copy restored while it was read object={}", object.name.object);
  else
    note_failed(object.name, kept.error());
}

}  // namespace tarn::target
