#pragma once

#include <string_view>

#include "common/base/async.h"
#include "common/base/error.h"
#include "common/http/router.h"

namespace tarn::proxy {

// Names that AIStore's clients look for and that no Errc stands for.
inline constexpr std::string_view kJobNotFound = "ErrXactNotFound";
inline constexpr std::string_view kNodeNotFound = "errNodeNotFound";
inline constexpr std::string_view kLimitedCoexistence = "ErrLimitedCoexistence";
inline constexpr std::string_view kUnsupported = "ErrUnsupp";
inline constexpr std::string_view kInvalidProvider = "ErrInvalidBackendProvider";

/// Answers with `error`, its "tcode" being `tcode`.
Task<Status> refuse_as(http::Request& request, Error error, std::string_view tcode);

}  // namespace tarn::proxy
