#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "target/coded/slice_lane.h"
#include "target/drive/toll.h"
#include "target/node/node.h"

namespace tarn::target {

/// A slice that is to be made anew, and where.
struct SliceGoal {
  std::uint8_t index = 0;
  std::string holder;
  std::size_t rank = 0;  ///< the how-manieth slice of the object it is there
};

/// Is called with each holder that did not take its slice, or not all of it, and why. May be empty.
using Refused = std::function<void(const std::string& holder, const Error& error)>;

/// Makes slices of an object out of other ones that `version.coding` names, and brings each to its
/// new holder, where it waits to be sealed. For each goal its lane; null: its holder failed, or
/// does not take it. An error when k slices cannot be had: then nothing is anywhere. `purpose`: the
/// kind of waiter; the holders of the other slices let their clients go before a repair, and before
/// no client.
Task<Result<std::vector<std::shared_ptr<SliceLane>>>> remake_slices(
    TargetNode& node, ObjectName name, const io::ObjectRecord& version,
    std::vector<SliceGoal> goals, TurnFor purpose, Toll toll = {}, Refused refused = {});

/// Brings a copy of one slice from where `version.coding` names it to its new holder, where it
/// waits to be sealed. Errors: of either side; then nothing is there.
Task<Result<std::shared_ptr<SliceLane>>> copy_slice(TargetNode& node, ObjectName name,
                                                    io::ObjectRecord version, SliceGoal goal,
                                                    Toll toll = {});

/// The same out of the full copy, where `version.coding` names it: when fewer than k slices are
/// left.
Task<Result<std::vector<std::shared_ptr<SliceLane>>>> cut_full_copy(
    TargetNode& node, ObjectName name, const io::ObjectRecord& version,
    std::vector<SliceGoal> goals, Toll toll = {}, Refused refused = {});

/// Brings the full copy here from where `version.coding` names it, or, when that is nowhere, makes
/// it out of k slices; it waits to be sealed. Not under the name's lock. After an error nothing is
/// there.
Task<Result<std::shared_ptr<SliceLane>>> make_full_copy(TargetNode& node, ObjectName name,
                                                        io::ObjectRecord version, Toll toll = {});

}  // namespace tarn::target
