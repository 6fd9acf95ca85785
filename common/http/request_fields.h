#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "common/api/request_path.h"
#include "common/base/error.h"
#include "common/http/message.h"

namespace tarn::http {

/// True if `words`, separated by single blanks as in "GET HEAD", has `word`.
[[nodiscard]] bool has_word(std::string_view words, std::string_view word);

/// Reading of one request field, or of all that begin alike, by every listener.
struct FieldRule {
  enum class Verdict : std::uint8_t {
    acted_on,  ///< changes the action, as docs/http.md describes
    harmless,  ///< changes no action, whatever it holds
    refused,   ///< asks for an action that Tarn lacks
  };
  std::string_view name;     ///< lower case; a '*' at its end stands for any rest
  std::string_view methods;  ///< "PUT POST", or "" for all
  Verdict verdict;
  Errc code = Errc::invalid_argument;  ///< of a refusal
  std::string_view meaning;            ///< a line for people; of a refusal, the reason
};

/// Table of the request fields of RFC 9110, of AIStore and of S3 that could change the meaning of
/// a request. The first rule that fits a field and a method counts; a field without one is
/// harmless. docs/http.md holds the table.
[[nodiscard]] std::span<const FieldRule> field_rules();

/// Refuses a request that asks by a field, or by a query parameter of S3, for an action that Tarn
/// lacks: invalid_argument or unsupported, naming it and the alternative.
[[nodiscard]] Status check_request_fields(const RequestHead& head, const api::Query& query);

}  // namespace tarn::http
