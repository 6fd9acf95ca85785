#include "common/cluster/state/client_addresses.h"

#include <boost/asio/ip/address.hpp>

#include "common/base/local_address.h"
#include "common/http/client.h"

namespace tarn::cluster {
namespace {

/// Without the slashes at its end: paths are appended to it.
Result<std::string> origin_in(std::string_view text) {
  if (const auto url = http::parse_http_or_https(text); !url)
    return fail(Errc::invalid_argument, "--advertise: {}", url.error().message);
  while (text.ends_with('/')) text.remove_suffix(1);
  return std::string(text);
}

}  // namespace

const std::string& url_for_client(const Node& node, std::string_view client) {
  if (node.client_addresses.empty()) return node.public_url;
  boost::system::error_code bad;
  const auto address = boost::asio::ip::make_address(address_without_port(client), bad);
  if (bad) return node.public_url;
  const ClientAddress* narrowest = nullptr;
  for (const ClientAddress& each : node.client_addresses) {
    if (!each.network.contains(address)) continue;
    if (narrowest == nullptr || each.network.prefix_bits() > narrowest->network.prefix_bits())
      narrowest = &each;
  }
  return narrowest == nullptr ? node.public_url : narrowest->url;
}

const std::string& url_for_node(const Node& node, const Node& caller) {
  if (node.client_addresses.empty()) return node.public_url;
  const auto url = http::parse_http_or_https(caller.internal_url);
  return url ? url_for_client(node, url->authority()) : node.public_url;
}

Result<Advertised> parse_advertised(const std::vector<std::string>& words) {
  Advertised out;
  for (const std::string_view word : words) {
    const auto equals = word.find('=');
    if (equals == std::string_view::npos || equals > word.find("://")) {
      if (!out.url.empty())
        return fail(Errc::invalid_argument,
                    "--advertise names two URLs for all clients, {} and {}: write NETWORK=URL for "
                    "the clients of one network",
                    out.url, word);
      TRY(out.url, origin_in(word));
      continue;
    }
    auto network = IpNetwork::parse(word.substr(0, equals));
    if (!network)
      return fail(Errc::invalid_argument, "--advertise {}: {}", word, network.error().message);
    for (const ClientAddress& other : out.networks)
      if (other.network == *network)
        return fail(Errc::invalid_argument, "--advertise names the network {} twice",
                    network->text());
    TRY(std::string url, origin_in(word.substr(equals + 1)));
    out.networks.push_back({*network, std::move(url)});
  }
  return out;
}

}  // namespace tarn::cluster
