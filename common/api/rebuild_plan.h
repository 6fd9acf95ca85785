#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace tarn::api {

/// Content of `tarn rebuild plan`: the cost of the loss of a drive or a target. Pure.

/// Objects that lie in the same way on the drives that may be lost. A copy is a slice of an object
/// that is kept as copies: k = 1, and m further copies.
struct Stake {
  std::uint32_t k = 1;         ///< slices that the object is made of again
  std::uint32_t m = 0;         ///< number of slices that may go
  std::uint32_t together = 1;  ///< slices of one object that would go at once
  std::uint64_t objects = 0;
  std::uint64_t bytes = 0;  ///< of all these slices

  bool operator==(const Stake&) const = default;
};
void to_json(nlohmann::json& out, const Stake& stake);
void from_json(const nlohmann::json& in, Stake& stake);

/// Rates of the targets that would repair a loss, in bytes a second; 0: no limit, or none.
struct RebuildRates {
  std::uint64_t ceiling = 0;  ///< of all of them together
  std::uint64_t floor = 0;    ///< their sum in any case
};

struct Loss {
  std::uint64_t objects = 0;  ///< with slices or copies to be made again
  std::uint64_t bytes = 0;    ///< to be written
  std::uint64_t read = 0;     ///< from other drives, for that
  std::uint32_t sources_least = 0;
  std::uint32_t sources_most = 0;
  std::uint64_t at_risk = 0;  ///< of `objects`, those that until then survive nothing more
  std::uint64_t lost = 0;     ///< objects of which too little would be left
  std::uint64_t lost_bytes = 0;
  std::optional<double> seconds_least;  ///< by the ceiling; none without one
  std::optional<double> seconds_most;   ///< by the floor, of which reading takes its part

  bool operator==(const Loss&) const = default;
};
void to_json(nlohmann::json& out, const Loss& loss);

/// Cost as long as nothing else is missing.
[[nodiscard]] Loss cost_of_loss(const std::vector<Stake>& stakes, const RebuildRates& rates);

}  // namespace tarn::api
