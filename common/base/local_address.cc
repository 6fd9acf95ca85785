#include "common/base/local_address.h"

#include <arpa/inet.h>
#include <cstring>
#include <memory>
#include <netinet/in.h>
#include <string>
#include <sys/socket.h>

#include <fmt/format.h>
#include <ifaddrs.h>

namespace tarn {
namespace {

bool has_address(const ifaddrs& interface, const in_addr& v4) {
  if (interface.ifa_addr == nullptr || interface.ifa_addr->sa_family != AF_INET) return false;
  sockaddr_in own{};
  std::memcpy(&own, interface.ifa_addr, sizeof own);
  return own.sin_addr.s_addr == v4.s_addr;
}

bool has_address(const ifaddrs& interface, const in6_addr& v6) {
  if (interface.ifa_addr == nullptr || interface.ifa_addr->sa_family != AF_INET6) return false;
  sockaddr_in6 own{};
  std::memcpy(&own, interface.ifa_addr, sizeof own);
  return std::memcmp(&own.sin6_addr, &v6, sizeof v6) == 0;
}

template <class Address>
bool on_an_interface(const Address& address) {
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return false;
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> all(first, &::freeifaddrs);
  for (const ifaddrs* it = first; it != nullptr; it = it->ifa_next)
    if (has_address(*it, address)) return true;
  return false;
}

}  // namespace

std::string authority_text(std::string_view host, std::uint16_t port) {
  const bool is_v6 = host.find(':') != std::string_view::npos;
  return is_v6 ? fmt::format("[{}]:{}", host, port) : fmt::format("{}:{}", host, port);
}

std::string address_without_port(std::string_view address) {
  if (address.starts_with('[')) {
    const auto end = address.find(']');
    if (end == std::string_view::npos) return {};
    address = address.substr(1, end - 1);
  } else if (const auto colon = address.find(':');
             colon != std::string_view::npos &&
             address.find(':', colon + 1) == std::string_view::npos) {
    address = address.substr(0, colon);
  }
  address = address.substr(0, address.find('%'));
  if (address.starts_with("::ffff:") && address.find('.') != std::string_view::npos)
    address.remove_prefix(7);
  return std::string(address);
}

bool is_local_address(std::string_view address) {
  const std::string host = address_without_port(address);
  in_addr v4{};
  if (::inet_pton(AF_INET, host.c_str(), &v4) == 1)
    return host.starts_with("127.") || on_an_interface(v4);
  in6_addr v6{};
  if (::inet_pton(AF_INET6, host.c_str(), &v6) != 1) return false;
  return IN6_IS_ADDR_LOOPBACK(&v6) || on_an_interface(v6);
}

}  // namespace tarn
