#pragma once

#include <compare>
#include <cstdint>
#include <string>

namespace tarn {

/// A bucket's number: never used again, so that a bucket destroyed and made anew shows no old
/// objects.
enum class BucketId : std::uint64_t {};

[[nodiscard]] constexpr std::uint64_t raw(BucketId id) { return static_cast<std::uint64_t>(id); }

/// Orders every committed change of an object (docs/architecture.md). The greater one wins.
/// Never from the clock; never repeats, since `incarnation` is the revision at which this start of
/// the node registered, and `counter` grows within it.
struct Generation {
  std::uint64_t map_version = 0;
  std::uint64_t incarnation = 0;
  std::uint64_t counter = 0;

  auto operator<=>(const Generation&) const = default;
};

}  // namespace tarn
