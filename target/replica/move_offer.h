#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/error.h"
#include "common/base/fail_point.h"
#include "common/base/ids.h"
#include "common/io/object_attribute.h"

namespace tarn::target {

// Offer that a target sends before names, so that bytes travel only when they are needed. Pure.

/// A record that is offered. Tombstones are offered, too: a target that does not hear of a delete
/// might keep an older version.
struct OfferedName {
  std::string name;
  io::ObjectRecord::Kind kind = io::ObjectRecord::Kind::object;
  Generation generation;

  bool operator==(const OfferedName&) const = default;
};

/// Names of one bucket.
struct Offer {
  static constexpr std::size_t kNamesMax = 1000;
  static constexpr std::size_t kBytesMax = 4U << 20U;  ///< of its JSON

  BucketId bucket{};
  std::uint64_t bmd_version = 0;  ///< at which the bucket exists
  std::uint64_t map_version = 0;  ///< by which the sender sends them
  std::vector<OfferedName> names;

  bool operator==(const Offer&) const = default;
};
/// {"bucket":7,"bmd":3,"map":9,"names":[{"name":"a%20b","kind":1,"generation":[4,17,2]}]}: names
/// are percent-encoded, since they may be any bytes.
[[nodiscard]] std::string encode(const Offer& offer);
/// invalid_argument, with what is wrong.
[[nodiscard]] Result<Offer> decode_offer(const std::string& text);

/// The answer: which of the names, by their place in the offer, the receiver lacks or has older.
/// All other names it has as new or newer, durably. {"wanted":[0,3]}
[[nodiscard]] std::string encode_wanted(const std::vector<std::size_t>& wanted);
/// invalid_argument also for a place that is not below `names`.
[[nodiscard]] Result<std::vector<std::size_t>> decode_wanted(const std::string& text,
                                                             std::size_t names);

/// True if a copy of generation `offered` is to be stored where the newest record, maybe a
/// tombstone, is `present`: only if it is newer.
[[nodiscard]] inline bool wants(const std::optional<io::ObjectRecord>& present,
                                const Generation& offered) {
  if (!SAFETY("safety.newer_stays")) return true;
  return !present || present->generation < offered;
}

}  // namespace tarn::target
