#pragma once

#include <cstddef>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include <nlohmann/json_fwd.hpp>

namespace tarn::api {

/// The first names of objects that are lost, in byte order: those behind `after`, `max` at most,
/// however many there are. A value.
class LostNames {
 public:
  LostNames() = default;
  LostNames(std::string after, std::size_t max) : after_(std::move(after)), max_(max) {}

  void add(std::string name);
  void add(const LostNames& other);
  [[nodiscard]] const std::set<std::string>& names() const { return names_; }
  /// Whether there are others behind the last of them.
  [[nodiscard]] bool more() const { return more_; }
  bool operator==(const LostNames&) const = default;

 private:
  friend void from_json(const nlohmann::json& in, LostNames& lost);
  std::string after_;
  std::size_t max_ = std::numeric_limits<std::size_t>::max();
  std::set<std::string> names_;
  std::optional<std::string> bound_;  ///< behind it somebody has not said all
  bool more_ = false;
};
/// {"lost_names":[..],"lost_more":false}
void to_json(nlohmann::json& out, const LostNames& lost);
/// None where the keys are missing: nodes of before did not say.
void from_json(const nlohmann::json& in, LostNames& lost);

}  // namespace tarn::api
