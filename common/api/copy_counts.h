#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "common/api/first_names.h"

namespace tarn::api {

/// The counter of CopyCounts that an object is in. One at risk is also one of those reduced.
enum class ObjectState : std::uint8_t { full, reduced, at_risk, lost };
[[nodiscard]] const char* to_string(ObjectState state);
/// The counter of a word of to_string(); none for other words.
[[nodiscard]] std::optional<ObjectState> parse_object_state(std::string_view word);

/// Names of the objects that one counter counts. A value.
struct StateList {
  ObjectState state = ObjectState::lost;
  FirstNames names;

  /// Takes the name of an object that is counted as `counted`, if that is in the list.
  void add(ObjectState counted, const std::string& name);
};

/// Numbers of objects of a bucket by their number of copies, counted from the indexes of the drives
/// that can be asked. Bytes are those of the objects, once each, however many copies or slices they
/// have.
struct CopyCounts {
  std::uint64_t full = 0;     ///< as many as the bucket wants, or more
  std::uint64_t reduced = 0;  ///< fewer
  std::uint64_t at_risk = 0;  ///< of `reduced`, those with one copy only
  std::uint64_t lost = 0;     ///< the newest version is on no drive that can be asked
  std::uint64_t full_bytes = 0;
  std::uint64_t reduced_bytes = 0;
  std::uint64_t at_risk_bytes = 0;
  std::uint64_t lost_bytes = 0;                      ///< as far as a record that is there shows
  std::map<std::uint64_t, std::uint64_t> by_copies;  ///< number of copies -> objects
  std::uint64_t drives_away = 0;                     ///< their copies are not counted

  // Each returns the counter that the object is in.

  ObjectState add(std::uint64_t copies, std::uint64_t wanted, std::uint64_t bytes);
  /// One that has all its copies, or not (`copies`, `wanted`), and not all of its slices: `left`
  /// more of these may go.
  ObjectState add_short(std::uint64_t copies, std::uint64_t left, bool is_lost,
                        std::uint64_t bytes);
  /// One of which no copy counts.
  ObjectState add_lost(std::uint64_t bytes);
  void add(const CopyCounts& other);
  /// Number of copies, whichever they are, that may go at once without a loss; none without
  /// objects.
  [[nodiscard]] std::optional<std::uint64_t> survives() const;
  bool operator==(const CopyCounts&) const = default;
};
void to_json(nlohmann::json& out, const CopyCounts& counts);
/// Bytes that are missing are 0: older nodes did not report them.
void from_json(const nlohmann::json& in, CopyCounts& counts);

/// Answer of a target that has counted the copies on its drives: all in one JSON object.
struct CountedCopies {
  CopyCounts counts;
  FirstNames lost;
  /// Names of objects in the wanted state. If set, no name after them was counted.
  std::optional<FirstNames> list = {};
  /// False while a drive may be back soon, or an object may lie only on drives that are away.
  bool all_seen = true;
};
void to_json(nlohmann::json& out, const CountedCopies& counted);
/// Older nodes did not send `all_seen`: true then if no drive is away.
void from_json(const nlohmann::json& in, CountedCopies& counted);

}  // namespace tarn::api
