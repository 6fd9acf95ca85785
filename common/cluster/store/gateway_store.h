#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/cluster/store/meta_store.h"
#include "common/http/client.h"

namespace tarn::cluster {

/// A user of etcd's.
struct EtcdUser {
  std::string name;
  std::string password;
};

/// MetaStore over etcd's v3 HTTP/JSON gateway (etcd's documentation, "gRPC gateway"): etcd itself,
/// or the embedded store that a proxy serves under the same paths. A call takes at most 4 s: it
/// asks the endpoint that answered last, and the next one as well when that is silent for a second.
/// A call that must not be done twice is sent to one endpoint only, and fails when other calls have
/// left that one.
class GatewayStore final : public MetaStore {
 public:
  /// `sign` adds the proof of identity that a proxy wants (node authentication).
  using Sign = std::function<void(http::ClientRequest&)>;
  /// With `user` it logs in at etcd, and again whenever etcd no longer takes the token: tokens end
  /// by their age, with a restart of etcd, or when its users are changed. `client` brings TLS for
  /// endpoints of https.
  GatewayStore(http::Client client, std::vector<std::string> endpoints, Sign sign,
               std::optional<EtcdUser> user = std::nullopt);
  ~GatewayStore() override;

  Task<Result<RangeResult>> range(RangeRequest request) override;
  Task<Result<TransactionResult>> commit(Transaction transaction) override;
  Task<Result<LeaseId>> grant(std::chrono::seconds ttl) override;
  Task<Result<std::chrono::seconds>> keep_alive(LeaseId lease) override;
  Task<Status> revoke(LeaseId lease) override;
  Task<Result<LeaseState>> time_to_live(LeaseId lease) override;
  Task<Status> watch(std::string prefix, Revision from,
                     std::function<bool(WatchBatch)> sink) override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tarn::cluster
