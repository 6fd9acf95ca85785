#include "common/base/ip_network.h"

#include <utility>

#include <fmt/format.h>

#include "common/base/encoding.h"

namespace tarn {
namespace {

namespace ip = boost::asio::ip;

ip::network_v4 network_at(const ip::address_v4& address, unsigned bits) {
  return {address, static_cast<unsigned short>(bits)};
}
ip::network_v6 network_at(const ip::address_v6& address, unsigned bits) {
  return {address, static_cast<unsigned short>(bits)};
}

/// True if no bit is set after the prefix.
template <class Network>
bool is_exact(const Network& network) {
  return network.canonical() == network;
}

Error no_network(std::string_view text) {
  return {Errc::invalid_argument,
          fmt::format("'{}' is no network: it is written as 10.244.0.0/16 or fd00::/8", text)};
}

}  // namespace

Result<IpNetwork> IpNetwork::parse(std::string_view text) {
  const auto slash = text.find('/');
  boost::system::error_code bad;
  const ip::address address = ip::make_address(std::string(text.substr(0, slash)), bad);
  if (bad || (address.is_v6() && address.to_v6().scope_id() != 0)) return fail(no_network(text));
  const unsigned longest = address.is_v4() ? 32 : 128;
  unsigned bits = longest;
  if (slash != std::string_view::npos) {
    const auto length = parse_u64(text.substr(slash + 1));
    if (!length || *length > longest) return fail(no_network(text));
    bits = static_cast<unsigned>(*length);
  }
  const auto checked = [&](auto network) -> Result<IpNetwork> {
    if (!is_exact(network))
      return fail(Errc::invalid_argument,
                  "'{}' is the address of a machine, not of a network: write {}", text,
                  network.canonical().to_string());
    return IpNetwork(Range(std::move(network)));
  };
  if (address.is_v4()) return checked(network_at(address.to_v4(), bits));
  return checked(network_at(address.to_v6(), bits));
}

bool IpNetwork::contains(const ip::address& address) const {
  if (const auto* v4 = std::get_if<ip::network_v4>(&range_))
    return address.is_v4() && network_at(address.to_v4(), prefix_bits()).canonical() == *v4;
  const auto& v6 = std::get<ip::network_v6>(range_);
  return address.is_v6() && network_at(address.to_v6(), prefix_bits()).canonical() == v6;
}

unsigned IpNetwork::prefix_bits() const {
  return std::visit([](const auto& each) { return unsigned{each.prefix_length()}; }, range_);
}

std::string IpNetwork::text() const {
  return std::visit([](const auto& each) { return each.to_string(); }, range_);
}

}  // namespace tarn
