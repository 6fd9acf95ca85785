#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/security/azure_account.h"

namespace tarn::security {

/// A request as Azure's Shared Key sees it ("Authorize with Shared Key", Azure Storage REST API,
/// for versions from 2015-02-21 on).
struct AzureRequest {
  using Pairs = std::vector<std::pair<std::string, std::string>>;
  std::string_view method;           ///< "GET"
  std::string_view path;             ///< as it is sent, encoded
  Pairs query = {};                  ///< decoded, in any order; no name twice
  Pairs headers = {};                ///< as they are sent; x-ms-date must be among them
  std::uint64_t content_length = 0;  ///< of the body
};

/// The text that is signed.
[[nodiscard]] std::string azure_string_to_sign(const AzureRequest& request,
                                               std::string_view account);
/// The value of the header Authorization; `credentials` must have a key. Pure; thread-safe.
[[nodiscard]] std::string azure_authorization(const AzureRequest& request,
                                              const AzureCredentials& credentials);

}  // namespace tarn::security
