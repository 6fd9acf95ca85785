#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "common/api/upstream_props.h"
#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/http/client.h"
#include "common/security/aws_credentials.h"
#include "common/security/azure_account.h"
#include "target/upstream/role_credentials.h"

namespace tarn::target {

/// The server that has a bucket's objects, and the credentials for it.
struct UpstreamServer {
  api::UpstreamKind kind = api::UpstreamKind::s3;
  http::Url url;       ///< its path, without a slash at the end, goes before each name
  std::string bucket;  ///< as it is called there, for messages
  std::string name;    ///< of the bucket, as the cluster calls it: "s3://data"; empty: of a link
  api::BackendRate rate = {};
  std::string region;                                   ///< of S3 and Google
  std::optional<security::AwsCredentials> credentials;  ///< none: requests are not signed

  /// Credentials for Azure: nothing for a server that is not the configured account's.
  std::optional<security::AzureCredentials> azure;

  /// True if requests carry credentials.
  [[nodiscard]] bool is_signed() const { return credentials || azure; }
  /// "https://host:443"
  [[nodiscard]] std::string origin() const;
  /// "https://host:443/path", for messages: without credentials.
  [[nodiscard]] std::string display() const;
};

/// The servers that this target may ask. Requests go to the clouds' own hosts by https, to the URLs
/// that the operator listed, and nowhere else. The right to make a bucket is not the right to have
/// a target speak with any host that it can reach. Immutable, but for the credentials of a role;
/// thread-safe.
class UpstreamServers {
 public:
  UpstreamServers() = default;
  /// `listed`: the setting upstream.endpoints, URLs with commas between them. AWS_ENDPOINT_URL and
  /// GCS_ENDPOINT_URL count as listed, and are the servers of buckets of their kind that name none;
  /// AWS_REGION, or AWS_DEFAULT_REGION, is the region of S3 buckets that name none. The account of
  /// Azure is that of load_azure_account(). Reads the credentials: blocking, at the start.
  /// invalid_argument for a text that is no URL, and as AwsIdentities::load() and
  /// load_azure_account().
  [[nodiscard]] static Result<UpstreamServers> load(std::string_view listed,
                                                    const security::Environment& environment,
                                                    Clock& clock = system_clock());

  /// True if this target was started with a server or credentials for this kind. Only then buckets
  /// that the cluster does not know are looked for.
  [[nodiscard]] bool is_configured(api::UpstreamKind kind) const;
  /// The server of buckets of this kind that name none; empty: the cloud's own, and of Azure none.
  [[nodiscard]] std::string endpoint(api::UpstreamKind kind) const;
  /// The server of `bucket`. forbidden for a server that is not listed; invalid_argument for a URL
  /// that is none, for a profile that does not exist, and for Azure without server or account;
  /// unavailable while the credentials of role() are not here. A
  /// shared access signature is a secret that its receiver can use. So Azure's credentials go to
  /// the account's own URL alone, and not to other URLs that are listed.
  [[nodiscard]] Result<UpstreamServer> server_of(const api::Bucket& bucket,
                                                 const api::UpstreamProps& props) const;
  /// The server that lists the buckets of the account that this target was started with, without a
  /// bucket. bucket_not_found unless is_configured().
  [[nodiscard]] Result<UpstreamServer> account_of(api::UpstreamKind kind) const;
  /// The web server of a link, without the link's path. forbidden for one that is not listed.
  [[nodiscard]] Result<UpstreamServer> server_of_link(const http::Url& link) const;
  /// The role whose credentials sign requests for S3 where no profile is named; null: none. They
  /// are fetched while its keep() runs.
  [[nodiscard]] const std::shared_ptr<RoleCredentials>& role() const { return role_; }

 private:
  Status list(std::string_view setting, std::string_view urls);
  [[nodiscard]] const security::AwsIdentities& identities(api::UpstreamKind kind) const;
  [[nodiscard]] Result<std::optional<security::AwsCredentials>> keys_of(
      api::UpstreamKind kind, const std::string& profile) const;

  std::set<std::string> listed_;  // "https://host:443"
  std::map<api::UpstreamKind, std::string> endpoints_;
  std::string region_;
  security::AwsIdentities aws_;
  std::shared_ptr<RoleCredentials> role_;
  security::AwsIdentities google_;
  std::optional<security::AzureCredentials> azure_;
};

}  // namespace tarn::target
