#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "common/base/error.h"
#include "common/security/aws_credentials.h"

namespace tarn::security {

/// An identity towards Azure's Blob service: the key of an account, or a shared access signature.
/// Never logged.
struct AzureCredentials {
  std::string account;  ///< empty with a SAS alone
  std::string key;      ///< decoded; empty: `sas` is used
  std::string sas;      ///< a query, encoded, without '?'
};

/// The account of Azure that a node was started with.
struct AzureAccount {
  std::string endpoint;  ///< URL of its Blob service, without query; empty: there is no account
  std::optional<AzureCredentials> credentials;  ///< none: requests are not signed
};

/// Reads AZURE_STORAGE_CONNECTION_STRING, or else AZURE_STORAGE_ACCOUNT with AZURE_STORAGE_KEY or
/// AZURE_STORAGE_SAS_TOKEN, as Azure's own programs do; AIS_AZURE_URL is another URL of the
/// service, as in AIStore. invalid_argument, naming the variable and without any secret, for values
/// that contradict each other.
[[nodiscard]] Result<AzureAccount> load_azure_account(const Environment& environment);

}  // namespace tarn::security
