#pragma once

#include <string_view>

#include "common/base/error.h"

namespace tarn::api {

/// The HTTP status of an error: the one table of the program (docs/api.md).
[[nodiscard]] unsigned http_status(Errc code) noexcept;
/// AIStore's name for the type of an error ("ErrBckNotFound"), empty where it has none.
[[nodiscard]] std::string_view tcode(Errc code) noexcept;
/// "Not Found" for 404.
[[nodiscard]] std::string_view reason_phrase(unsigned status) noexcept;
/// Error code of the error answer of another node: the table read backwards. Several errors have
/// the same status; AIStore's name in the JSON `body` identifies it. Where it has none: the most
/// general one.
[[nodiscard]] Errc errc_of_answer(unsigned status, std::string_view body);

/// Place of an error, for its JSON. The query of `url_path` is left out of it.
struct ErrorScene {
  std::string_view method;
  std::string_view url_path;
  std::string_view remote_address;
  std::string_view node;        ///< "p[id]" or "t[id]"
  std::string_view tcode = {};  ///< instead of the one that the error's code has
};

/// AIStore's error JSON on one line, without a newline at the end.
[[nodiscard]] std::string error_json(const Error& error, const ErrorScene& scene);
/// The message of an error body that another node sent: "message" of the JSON, else the text
/// itself.
[[nodiscard]] std::string error_message_of(std::string_view body);
/// AIStore's name for the type of such an error; empty when it has none.
[[nodiscard]] std::string tcode_of(std::string_view body);

}  // namespace tarn::api
