#pragma once

#include <cstddef>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include <nlohmann/json_fwd.hpp>

namespace tarn::api {

/// The first names of a set of objects in byte order: those after `after`, `max` at most, however
/// many there are. A value.
class FirstNames {
 public:
  FirstNames() = default;
  FirstNames(std::string after, std::size_t max) : after_(std::move(after)), max_(max) {}

  void add(std::string name);
  void add(const FirstNames& other);
  [[nodiscard]] const std::set<std::string>& names() const { return names_; }
  /// True if there are further ones after the last of them.
  [[nodiscard]] bool more() const { return more_; }
  bool operator==(const FirstNames&) const = default;

 private:
  friend void from_json(const nlohmann::json& in, FirstNames& names);
  std::string after_;
  std::size_t max_ = std::numeric_limits<std::size_t>::max();
  std::set<std::string> names_;
  std::optional<std::string> bound_;  ///< up to it all have sent all
  bool more_ = false;
};
/// {"names":[..],"more":false}
void to_json(nlohmann::json& out, const FirstNames& names);
void from_json(const nlohmann::json& in, FirstNames& names);

}  // namespace tarn::api
