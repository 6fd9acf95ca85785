#pragma once

#include <cstdint>
#include <map>

#include <nlohmann/json_fwd.hpp>

namespace tarn::api {

/// How many objects of a bucket have how many copies, counted from the indexes of the drives that
/// can be asked.
struct CopyCounts {
  std::uint64_t full = 0;     ///< as many as the bucket wants, or more
  std::uint64_t reduced = 0;  ///< fewer
  std::uint64_t at_risk = 0;  ///< of `reduced`, those with one copy only
  std::uint64_t lost = 0;     ///< the newest version is on no drive that can be asked
  std::map<std::uint64_t, std::uint64_t> by_copies;  ///< number of copies -> objects
  std::uint64_t drives_away = 0;                     ///< what lies there only is not counted

  void add(std::uint64_t copies, std::uint64_t wanted);
  void add(const CopyCounts& other);
  bool operator==(const CopyCounts&) const = default;
};
void to_json(nlohmann::json& out, const CopyCounts& counts);
void from_json(const nlohmann::json& in, CopyCounts& counts);

}  // namespace tarn::api
