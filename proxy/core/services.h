#pragma once

#include <atomic>
#include <string>

#include "common/base/clock.h"
#include "common/cluster/admin/node_routes.h"
#include "common/cluster/node/absences.h"
#include "common/cluster/node/membership.h"
#include "common/cluster/state/cluster_view.h"
#include "common/cluster/store/meta_store.h"
#include "common/http/client.h"
#include "common/http/loops.h"
#include "common/obs/metrics.h"
#include "common/security/node_auth.h"
#include "common/security/redirect_token.h"
#include "proxy/core/options.h"

namespace tarn::proxy {

class Jobs;
class Suspects;

/// Services that the handlers of a proxy use. All outlive the listeners, and all are thread-safe.
struct Services {
  const Options& options;
  Clock& clock;
  cluster::MetaStore& store;
  cluster::ClusterView& view;
  const cluster::Membership& membership;
  const Suspects& suspects;
  http::Client& client;
  const security::RedirectSigner& signer;
  const security::NodeAuth& auth;
  prometheus::Counter& redirects;
  Jobs& jobs;
  http::TaskGroup& tasks;                   ///< work that goes on after its request was answered
  const cluster::NodeContext& node;         ///< of this proxy
  std::string relay_url;                    ///< of this proxy, for lines that people read
  const std::atomic<unsigned>& put_status;  ///< of a redirected PUT: 307 or 302
  const cluster::Absences& absences;        ///< as this proxy counts them while it leads

  [[nodiscard]] const std::string& node_id() const { return membership.self().id; }
};

}  // namespace tarn::proxy
