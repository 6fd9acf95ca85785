#include "common/api/custom_metadata.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "common/api/download.h"
#include "common/base/encoding.h"

namespace tarn::api {
namespace {

void put(CustomMetadata& pairs, std::string key, std::string value) {
  for (auto& pair : pairs) {
    if (pair.first != key) continue;
    pair.second = std::move(value);
    return;
  }
  pairs.emplace_back(std::move(key), std::move(value));
}

Status check_text(std::string_view what, std::string_view text) {
  if (!is_utf8(text)) return fail(Errc::invalid_argument, "custom metadata: {} is no UTF-8", what);
  const auto is_control = [](char c) {
    return static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) == 0x7F;
  };
  if (std::any_of(text.begin(), text.end(), is_control))
    return fail(Errc::invalid_argument,
                "custom metadata: {} has a control character, which a header cannot carry", what);
  if (trim(text) != text)
    return fail(Errc::invalid_argument,
                "custom metadata: {} begins or ends with a space, which a header would lose", what);
  return {};
}

Status check_not_reserved(const CustomMetadata& pairs) {
  for (const auto& [key, value] : pairs)
    if (is_reserved_key(key))
      return fail(Errc::invalid_argument,
                  "custom metadata: key '{}' is the cluster's: choose another one", key);
  return {};
}

}  // namespace

bool is_checksum_key(std::string_view key) {
  return iequals(key, kChecksumTypeKey) || iequals(key, kChecksumValueKey);
}

bool is_reserved_key(std::string_view key) {
  return is_checksum_key(key) || iequals(key, kSourceKey) || iequals(key, kSourceTagKey) ||
         iequals(key, kWritingKey) || iequals(key, kLinkKey) || iequals(key, kLinkVersionKey);
}

std::size_t custom_metadata_bytes(const CustomMetadata& pairs) {
  std::size_t bytes = 0;
  for (const auto& [key, value] : pairs)
    if (!is_reserved_key(key)) bytes += key.size() + value.size() + 2;
  return bytes;
}

Result<CustomMetadata> custom_from_lines(const std::vector<std::string_view>& lines) {
  CustomMetadata pairs;
  for (const std::string_view line : lines) {
    std::string_view rest = line;
    std::string* last = nullptr;  // the value that a part without '=' still belongs to
    std::string key;
    std::string value;
    while (true) {
      const auto comma = rest.find(',');
      const std::string_view part = rest.substr(0, comma);
      const auto equals = part.find('=');
      if (equals == std::string_view::npos && last == nullptr)
        return fail(Errc::invalid_argument,
                    "Ais-Custom-Md: '{}' is not of the form key=value (several: key=value, "
                    "key=value, or a line each)",
                    line);
      if (equals == std::string_view::npos) {
        *last += ',';
        *last += part;
      } else {
        if (last != nullptr) put(pairs, std::move(key), std::string(trim(value)));
        key = trim(part.substr(0, equals));
        value = part.substr(equals + 1);
        last = &value;
      }
      if (comma == std::string_view::npos) break;
      rest.remove_prefix(comma + 1);
    }
    put(pairs, std::move(key), std::string(trim(value)));
  }
  TRY_OK(check_not_reserved(pairs));
  TRY_OK(check_custom_metadata(pairs));
  return pairs;
}

Result<CustomMetadata> custom_from_json(const nlohmann::json& value) {
  if (!value.is_object())
    return fail(Errc::invalid_argument,
                "custom metadata is an object of strings: {{\"value\":{{\"key\":\"value\"}}}}");
  CustomMetadata pairs;
  for (const auto& [key, text] : value.items()) {
    if (!text.is_string())
      return fail(Errc::invalid_argument, "custom metadata: the value of '{}' is no string", key);
    pairs.emplace_back(key, text.get<std::string>());
  }
  TRY_OK(check_not_reserved(pairs));
  TRY_OK(check_custom_metadata(pairs));
  return pairs;
}

CustomMetadata merged(CustomMetadata old, const CustomMetadata& changes) {
  for (const auto& [key, value] : changes) put(old, key, value);
  return old;
}

Status check_custom_metadata(const CustomMetadata& pairs) {
  for (const auto& [key, value] : pairs) {
    if (key.empty()) return fail(Errc::invalid_argument, "custom metadata: a key is empty");
    TRY_OK(check_text("a key", key));
    if (key.find('=') != std::string::npos)
      return fail(Errc::invalid_argument, "custom metadata: key '{}' has a '='", key);
    TRY_OK(check_text(fmt::format("the value of '{}'", key), value));
  }
  if (const std::size_t bytes = custom_metadata_bytes(pairs); bytes > kCustomMetadataBytesMax)
    return fail(Errc::invalid_argument,
                "custom metadata of {} bytes: an object takes at most {} bytes of it (keys, values "
                "and two bytes a pair); keep larger notes in an object of their own",
                bytes, kCustomMetadataBytesMax);
  return {};
}

}  // namespace tarn::api
