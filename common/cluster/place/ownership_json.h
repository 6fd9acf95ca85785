#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "common/base/error.h"
#include "common/cluster/place/ownership.h"

namespace tarn::cluster {

/// The map as it lies in the meta store: members in full, past epochs as differences from the
/// present one, so that its size hardly depends on how many there are.
///
///   {"version":9,"members":[{"id":"t1"},{"id":"t2","weight":2.0,"drives":24,"flags":4}],
///    "past":[{"last":8,"without":["t1"],"with":[{"id":"t3"}],"lost":["t3"],"only_for":["t3"]}]}
///
/// Left out: a weight of 1, one drive, no flags, no drive_set, no zone, no lost targets,
/// and that a past epoch is kept for all names. The zones of a past epoch are those that placement
/// used.
[[nodiscard]] std::string encode(const Ownership& map);
/// Decodes it. corrupt, with the fault, for a text that encode() does not make of a map.
[[nodiscard]] Result<Ownership> decode_ownership(const std::string& text);

/// The part "past" of that, and its reader, which needs version and owning targets of `map` and
/// throws an exception that states the fault.
[[nodiscard]] nlohmann::json past_json(const Ownership& map);
[[nodiscard]] std::vector<PastEpoch> past_from(const nlohmann::json& in, const Ownership& map);

}  // namespace tarn::cluster
