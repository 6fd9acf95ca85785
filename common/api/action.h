#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "common/base/error.h"

namespace tarn::api {

/// AIStore's control message: the request in a JSON body (docs/api.md).
struct Action {
  std::string action;  ///< "create-bck", ...; empty for a request without a body
  std::string name;
  nlohmann::json value;  ///< null when absent

  static constexpr std::size_t kBytesMax = 1U << 20U;
  static constexpr std::size_t kListBytesMax = 4U << 20U;  ///< with the names of many objects
};
/// Keys are compared without case, as AIStore does; unknown ones are ignored. invalid_argument for
/// what is no JSON object of this form.
[[nodiscard]] Result<Action> parse_action(const std::string& body);

}  // namespace tarn::api
