#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/base/error.h"
#include "common/cluster/state/state.h"

namespace tarn::cluster {

/// URL of `node` for a client at `client` ("10.244.1.7:51234"): that of the narrowest network which
/// contains the client, public_url without one. Lives as long as `node`.
[[nodiscard]] const std::string& url_for_client(const Node& node, std::string_view client);
/// URL of the client listener of `node`, for calls by another node, `caller`, whose internal
/// address decides.
[[nodiscard]] const std::string& url_for_node(const Node& node, const Node& caller);

/// The words of the option --advertise: at most one "URL", and "NETWORK=URL" for each network whose
/// clients shall be sent to another URL.
struct Advertised {
  std::string url;  ///< empty: none is named
  std::vector<ClientAddress> networks;
};
/// Errors: invalid_argument for a word of another form, for two URLs, for a network that is named
/// twice.
[[nodiscard]] Result<Advertised> parse_advertised(const std::vector<std::string>& words);

}  // namespace tarn::cluster
