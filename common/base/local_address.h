#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tarn {

/// "10.0.0.5:8080", "[::1]:8080": an IPv6 address stands in brackets before a port (RFC 3986,
/// section 3.2.2).
[[nodiscard]] std::string authority_text(std::string_view host, std::uint16_t port);

/// The address in "127.0.0.1:51234", "[::1]:80", "::1%eth0" without port, brackets and scope; an
/// IPv4 address mapped into IPv6 as IPv4.
[[nodiscard]] std::string address_without_port(std::string_view address);

/// True if `address` ("127.0.0.1:51234", "[::1]:80", with or without port) is one of this machine:
/// loopback, or of one of its interfaces now. False for a text that is no IP address.
[[nodiscard]] bool is_local_address(std::string_view address);

}  // namespace tarn
