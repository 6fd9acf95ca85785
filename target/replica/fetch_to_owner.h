#pragma once

#include "target/replica/newest.h"

namespace tarn::target {

// A name of ours whose newest version still lies on another target (docs/decisions/011) is brought
// here at once when something needs it here: a change of its metadata, an append, a copy. It is a
// move of that one name (move_copy.h), before its turn in the walk that moves all, also while
// operators have stopped that; a later walk finds it here and erases it there.

/// find_newest(), after whatever lies elsewhere has come here: `holder` is null. Not under the
/// name's lock; takes as long as the bytes take. unavailable when its holder does not send it.
Task<Result<Newest>> fetch_to_owner(TargetNode& node, const ObjectRequest& wanted);

/// POST /v1/internal/move/give?bucket=&object=&map=: sends what lies here of that name to the
/// target that asks, which owns it by that version of the map. Answers when it has it durably; 421
/// when this target acts on another map.
Task<Status> give_to_owner(TargetNode& node, http::Request& request);

inline constexpr const char* kGivePath = "/v1/internal/move/give";

/// Has `holder` send this target what it has of the name, once all replicas have that. Ok: it has,
/// or it acts on another map; a look shows which.
Task<Status> fetch_from(TargetNode& node, const ObjectName& name, const cluster::Node& holder,
                        std::uint64_t map_version, std::uint64_t bytes);

}  // namespace tarn::target
