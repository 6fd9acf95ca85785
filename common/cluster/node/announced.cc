#include "common/cluster/node/announced.h"

#include <array>
#include <memory>
#include <netinet/in.h>
#include <sys/socket.h>

#include <netdb.h>

#include "common/base/local_address.h"
#include "common/base/unique_fd.h"
#include "common/http/client.h"
#include "common/obs/log.h"

namespace tarn::cluster {
namespace {

std::string numeric(const sockaddr* address, socklen_t bytes) {
  std::array<char, NI_MAXHOST> text{};
  const int failed =
      ::getnameinfo(address, bytes, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST);
  return failed == 0 ? text.data() : "";
}

/// The address that a socket to `peer` has: a datagram socket is connected without a packet.
std::string address_towards(const addrinfo& peer) {
  const UniqueFd fd(::socket(peer.ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!fd.valid() || ::connect(fd.get(), peer.ai_addr, peer.ai_addrlen) != 0) return {};
  sockaddr_storage own{};
  socklen_t bytes = sizeof own;
  if (::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&own), &bytes) != 0) return {};
  return numeric(reinterpret_cast<const sockaddr*>(&own), bytes);
}

RemotePeer look_up(const std::string& peer) {
  const auto url = http::parse_http_or_https(peer);
  if (!url) return {};
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_DGRAM;
  wanted.ai_flags = AI_NUMERICSERV;
  addrinfo* first = nullptr;
  if (::getaddrinfo(url->host.c_str(), std::to_string(url->port).c_str(), &wanted, &first) != 0)
    return {};
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> all(first, &::freeaddrinfo);
  for (const addrinfo* it = first; it != nullptr; it = it->ai_next) {
    const std::string there = numeric(it->ai_addr, it->ai_addrlen);
    if (there.empty() || is_local_address(there)) continue;
    std::string own = address_towards(*it);
    if (!own.empty()) return {peer, std::move(own)};
  }
  return {};
}

bool is_any(std::string_view host) { return host == "0.0.0.0" || host == "::"; }
bool is_loopback(std::string_view host) {
  return host.starts_with("127.") || host == "::1" || host == "localhost";
}

}  // namespace

RemotePeer find_remote_peer(const std::vector<std::string>& peers) {
  for (const std::string& peer : peers) {
    RemotePeer found = look_up(peer);
    if (!found.url.empty()) return found;
  }
  return {};
}

Status check_announced(const Node& node, const RemotePeer& remote) {
  std::vector<std::pair<std::string_view, const std::string*>> all{
      {"public", &node.public_url}, {"relay", &node.relay_url}, {"internal", &node.internal_url}};
  for (const ClientAddress& each : node.client_addresses) all.emplace_back("public", &each.url);
  for (const auto& [name, text] : all) {
    if (text->empty()) continue;
    const auto url = http::parse_http_or_https(*text);
    if (!url)
      return fail(Errc::invalid_argument, "the {} address of this node: {}", name,
                  url.error().message);
    if (is_any(url->host))
      return fail(Errc::invalid_argument,
                  "the {} address of this node, {}, is none that others can call: name one address",
                  name, *text);
    if (!remote.url.empty() && is_loopback(url->host))
      obs::log("node").warn(
          "others cannot call this node name={} url={} peer={} hint=\"listen at {}, or at all "
          "addresses\"",
          name, *text, remote.url, remote.own_address);
  }
  return {};
}

}  // namespace tarn::cluster
