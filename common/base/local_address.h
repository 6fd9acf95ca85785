#pragma once

#include <string_view>

namespace tarn {

/// Whether `address` ("127.0.0.1:51234", "[::1]:80", with or without port) is one of this machine:
/// loopback, or of one of its interfaces now. False for what is no IP address.
[[nodiscard]] bool is_local_address(std::string_view address);

}  // namespace tarn
