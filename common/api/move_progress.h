#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "common/api/bucket_copy.h"

namespace tarn::api {

/// Progress of one target in a rebalance (moves to other targets) or a resilver (moves between its
/// drives). Its JSON has all keys of CopyProgress, so that readers of the lines of a bucket copy
/// can read these.
struct MoveProgress {
  std::string kind;               ///< AIStore's: "rebalance" or "resilver"
  std::uint64_t map_version = 0;  ///< of the ownership that it follows; 0 for a resilver
  /// `objects` and `bytes` were moved; `deleted` records are no longer here; `failed` names could
  /// not be moved in the round that ended the job.
  CopyProgress counts;
  std::uint64_t left_names = 0;  ///< estimate of the names still to be moved, deletes too
  std::uint64_t left_bytes = 0;
  bool clean = false;  ///< true if done and no record here belongs elsewhere

  bool operator==(const MoveProgress&) const = default;
};
void to_json(nlohmann::json& out, const MoveProgress& progress);
void from_json(const nlohmann::json& in, MoveProgress& progress);

/// Progress of the moves that a target makes by itself when names get other replicas: the answer of
/// GET /v1/internal/rebalance.
struct MoveReport {
  enum class State : std::uint8_t {
    in_place,  ///< by this map no name of other targets is left here, or can be
    waiting,   ///< there may be such names: a walk begins soon, or again after an error
    walking,
    held  ///< there may be such names, and they are not to be moved now
  };
  std::uint64_t map_version = 0;  ///< by which it acts
  State state = State::in_place;
  MoveProgress walk;            ///< the present one, or the last one; of map 0: there was none
  std::int64_t started_ns = 0;  ///< begin of that walk, Unix time
  std::int64_t ended_ns = 0;    ///< 0: it runs
  std::uint64_t rate = 0;       ///< bytes a second that it moves now
  bool operator==(const MoveReport&) const = default;

  /// Time that the rest takes at this rate; none if that is unknown.
  [[nodiscard]] std::optional<double> seconds_left() const;
};
[[nodiscard]] std::string_view to_string(MoveReport::State state);
/// JSON with "seconds_left", null if unknown.
void to_json(nlohmann::json& out, const MoveReport& report);
void from_json(const nlohmann::json& in, MoveReport& report);

}  // namespace tarn::api
