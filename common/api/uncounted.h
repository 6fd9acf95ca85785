#pragma once

#include <cstdint>

#include <nlohmann/json_fwd.hpp>

namespace tarn::api {

/// The gap in a count of a bucket's names at one target: its drives that are out of service. A
/// value.
struct Uncounted {
  std::uint64_t drives = 0;  ///< number of drives that are out of service
  bool unseen = false;       ///< true if names may lie here that the count does not show
  bool expected = false;     ///< true if one of the drives may be back soon with its data

  /// Adds the gap of another moment of the same count: the worse of both holds.
  void take(const Uncounted& other);
  bool operator==(const Uncounted&) const = default;
};
void to_json(nlohmann::json& out, const Uncounted& uncounted);
void from_json(const nlohmann::json& in, Uncounted& uncounted);

}  // namespace tarn::api
