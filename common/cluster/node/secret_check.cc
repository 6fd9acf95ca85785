#include "common/cluster/node/secret_check.h"

#include <utility>

#include "common/base/encoding.h"
#include "common/cluster/store/keys.h"
#include "common/security/purposes.h"

namespace tarn::cluster {

std::string fingerprint(const security::ClusterSecret& secret) {
  return hex(secret.derive(security::kSecretCheckPurpose));
}

Task<Status> check_secret(MetaStore& store, std::string fingerprint) {
  RangeRequest key{std::string(keys::kSecretCheck), "", 0};
  CO_TRY(const auto found, co_await store.range(std::move(key)));
  if (found.items.empty())
    co_return fail(Errc::not_found, "the meta store does not say which secret the cluster has");
  if (found.items.front().value != fingerprint)
    co_return fail(Errc::unauthenticated,
                   "the secret of --secret-file is not the one of the cluster in this meta store: "
                   "give every node a copy of the same file");
  co_return Status();
}

}  // namespace tarn::cluster
