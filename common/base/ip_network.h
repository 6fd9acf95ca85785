#pragma once

#include <string>
#include <string_view>
#include <variant>

#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/network_v4.hpp>
#include <boost/asio/ip/network_v6.hpp>

#include "common/base/error.h"

namespace tarn {

/// A range of IP addresses in CIDR notation: "10.244.0.0/16" (RFC 4632), "fd00::/8" (RFC 4291).
/// Immutable; thread-safe.
class IpNetwork {
 public:
  /// One address without a length is a network of that address alone. Errors: invalid_argument for
  /// a text that is no network, and for bits that are set after the prefix ("10.0.0.1/8"), which
  /// would surprise its author.
  [[nodiscard]] static Result<IpNetwork> parse(std::string_view text);

  /// True if `address` lies in this network. False for one of the other family.
  [[nodiscard]] bool contains(const boost::asio::ip::address& address) const;
  /// Length of the prefix, in bits: the longer one of two networks is the narrower one.
  [[nodiscard]] unsigned prefix_bits() const;
  /// "10.244.0.0/16"
  [[nodiscard]] std::string text() const;

  bool operator==(const IpNetwork& other) const { return range_ == other.range_; }

 private:
  using Range = std::variant<boost::asio::ip::network_v4, boost::asio::ip::network_v6>;
  explicit IpNetwork(Range range) : range_(std::move(range)) {}

  Range range_;
};

}  // namespace tarn
