#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "common/base/error.h"

namespace tarn::api {

/// Slices of coded objects that lie on targets.
struct SliceSum {
  std::uint64_t slices = 0;
  std::uint64_t bytes = 0;  ///< of their files

  void add(const SliceSum& other);
  bool operator==(const SliceSum&) const = default;
};

/// Counts of the slices of a bucket's coded objects. The owner of an object counts its slices where
/// the newest record names them.
struct SliceCounts {
  /// Object that lacks slices, or has so many on one drive that fewer drives may go than its coding
  /// promises.
  struct Short {
    std::uint64_t left = 0;     ///< number of further drives, whichever they are, that may go
    std::uint64_t waiting = 0;  ///< slices that may come back by themselves
    bool lost = false;          ///< too few are there, and none is expected back

    bool operator==(const Short&) const = default;
  };
  std::uint64_t objects = 0;
  std::map<std::string, Short> incomplete;  ///< by name
  /// Number of drives, or nodes, whichever they are, that may go at once without a loss; none if
  /// there is no object.
  std::optional<std::uint64_t> survives_drives;
  std::optional<std::uint64_t> survives_nodes;
  /// The same of zones; none also where placement uses none.
  std::optional<std::uint64_t> survives_zones = {};
  /// Number of drives of the owners that were out of service: objects whose records lie there are
  /// in none of these.
  std::uint64_t drives_away = 0;
  /// Slices on the targets that no record names: they go soon. Sent with the first names only.
  SliceSum unnamed = {};
  /// Slices that the owner could not judge when it was asked last. Sent with the first names only.
  SliceSum unjudged = {};
  /// Names of objects that are readable now and would not be without the targets that the caller
  /// named. None if it named no target, or if an older target answered.
  std::optional<std::set<std::string>> unreadable = {};

  void add(const SliceCounts& other);
  bool operator==(const SliceCounts&) const = default;
};
/// In MessagePack, since names are any bytes.
[[nodiscard]] std::string encode(const SliceCounts& counts);
/// corrupt when it is none.
[[nodiscard]] Result<SliceCounts> slice_counts_from(std::string_view text);

/// The lesser of two values.
[[nodiscard]] std::optional<std::uint64_t> lesser(const std::optional<std::uint64_t>& a,
                                                  const std::optional<std::uint64_t>& b);

/// Ids in the comma-separated list of a query, such as `without=`. Pure.
[[nodiscard]] std::set<std::string> ids_in(std::string_view list);

}  // namespace tarn::api
