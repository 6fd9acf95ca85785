#pragma once

#include <string>

#include "common/base/async.h"
#include "common/base/error.h"
#include "common/cluster/store/meta_store.h"
#include "common/security/cluster_secret.h"

namespace tarn::cluster {

/// A value that differs for two secrets and reveals no part of them: derived by HKDF, kept under
/// keys::kSecretCheck. etcd knows nothing of the cluster secret, so nodes compare it themselves.
[[nodiscard]] std::string fingerprint(const security::ClusterSecret& secret);

/// Checks that the cluster in the store was made with this secret. unauthenticated when it was made
/// with another one; not_found if the store lacks the value.
Task<Status> check_secret(MetaStore& store, std::string fingerprint);

}  // namespace tarn::cluster
