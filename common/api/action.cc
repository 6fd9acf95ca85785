#include "common/api/action.h"

#include "common/base/encoding.h"

namespace tarn::api {

using nlohmann::json;

Result<Action> parse_action(const std::string& body) {
  Action out;
  if (trim(body).empty()) return out;
  const json parsed = json::parse(body, nullptr, false);
  if (!parsed.is_object())
    return fail(Errc::invalid_argument,
                "the body is no JSON object such as {{\"action\":\"list\",\"value\":null}}");
  for (const auto& [key, value] : parsed.items()) {
    if (iequals(key, "value")) out.value = value;
    const bool is_action = iequals(key, "action");
    if (!is_action && !iequals(key, "name")) continue;
    if (!value.is_string() && !value.is_null())
      return fail(Errc::invalid_argument, "\"{}\" of the body is no string", key);
    if (value.is_string()) (is_action ? out.action : out.name) = value.get<std::string>();
  }
  return out;
}

}  // namespace tarn::api
