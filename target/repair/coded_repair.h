#pragma once

#include <cstddef>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "target/coded/slice_lane.h"
#include "target/node/node.h"
#include "target/repair/repair_plan.h"
#include "target/repair/restores.h"

namespace tarn::target {

// Repair, by the owner of coded objects, of slices that are lost, or not where they belong
// (docs/decisions/019, "Repair").

/// A coded object that this target owns, and where its slices are.
struct CodedObject {
  ObjectName name;
  io::ObjectRecord record;
  std::vector<SliceState> states = {};         ///< of each slice
  SliceState full_copy = SliceState::missing;  ///< of the full copy
  std::vector<std::uint64_t> drives = {};      ///< of each slice, as SliceSeen::drive
  std::uint64_t full_copy_drive = 0;           ///< of the full copy
  std::set<std::string> unheard = {};          ///< targets that are down, or did not answer
};

/// Asks the holders of all slices: one call to each for kSlicesAtOnce of them.
Task<void> ask_holders(TargetNode& node, std::vector<CodedObject>& objects);

/// plan_repair() of an object as of now: targets that are down, or in `full`, take no slice.
[[nodiscard]] Repair repair_of(const TargetNode& node, const CodedObject& object,
                               const std::set<std::string>& full = {});

/// True if too few slices are left and upstream has the object: repair_object() evicts it, and the
/// next read fetches it.
[[nodiscard]] bool is_to_be_fetched(const TargetNode& node, const ObjectName& name,
                                    const Repair& repair);

/// Returns why slices of an object stay missing, or are not to be had, also after `repair`, which
/// is repair_of() it. Pure.
[[nodiscard]] WaitReasons waits_of(const CodedObject& object, const Repair& repair);

/// Number of bytes of slices that a repair writes.
[[nodiscard]] std::uint64_t bytes_of(const io::ObjectRecord& record, const Repair& repair);
/// Looks what is missing of an object now, and makes it again, where there is room. True: nothing
/// is left to be done. `making`, if not null, counts the bytes that pass, and notes what could not
/// be done.
Task<bool> repair_object(TargetNode& node, ObjectName name, RebuildWatch::Making* making = nullptr);

/// The full copy of the object, which this target shall have, was written by a lane of index
/// io::kFullCopy while it was read: makes it count, unless the object has changed since. A full
/// copy that fails is dropped: repair makes another.
Task<void> keep_full_copy(TargetNode& node, CodedObject object, std::shared_ptr<SliceLane> lane,
                          Restores::Turn turn);

}  // namespace tarn::target
