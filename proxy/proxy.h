#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/base/unique_fd.h"
#include "common/cluster/admin/node_routes.h"
#include "common/cluster/node/membership.h"
#include "common/cluster/state/cluster_view.h"
#include "common/cluster/store/embedded_store.h"
#include "common/http/client.h"
#include "common/http/loops.h"
#include "common/http/router.h"
#include "common/http/server.h"
#include "common/obs/metrics.h"
#include "common/security/cluster_secret.h"
#include "common/security/node_auth.h"
#include "common/security/redirect_token.h"
#include "proxy/admin/redundancy_board.h"
#include "proxy/core/options.h"
#include "proxy/core/services.h"
#include "proxy/jobs/jobs.h"
#include "proxy/watch/suspects.h"

namespace tarn::proxy {

/// One proxy process: made, started, stopped, in that order, from the main thread. The members
/// stand in the order in which they start; stop() goes the other way round.
class Proxy {
 public:
  Proxy(Options options, Clock& clock);
  ~Proxy();
  Proxy(const Proxy&) = delete;
  Proxy& operator=(const Proxy&) = delete;

  /// Starts all parts, up to node.json. On an error stop() still has to be called.
  [[nodiscard]] Status start();
  /// Finishes running transfers, for at most shutdown.grace, ends all tasks and closes the store.
  /// Idempotent. False when tasks have not ended in time, which the log names. No thread runs them
  /// any more, but they hold on to this object: the process has to end without its destructor.
  bool stop();

 private:
  /// A listener that answers 503 until it has a route table: its port must be known before that.
  struct Front {
    std::string name;
    std::unique_ptr<http::Server> server;
    std::unique_ptr<http::Router> router;
    std::atomic<const http::Router*> open{nullptr};
  };

  Status open_store();
  Status open_embedded();
  Status open_shared();
  Task<Status> enter_cluster();
  Status load_cluster();
  Status listen();
  Status listen_on(Front& front, http::Loops& loops, const std::string& name,
                   const std::string& address);
  [[nodiscard]] http::Handler handler_of(Front& front);
  Status join();
  Status configure();
  void open_routes();
  [[nodiscard]] Status readiness() const;
  Status publish();
  static Task<Status> serve(Front& front, http::Exchange& exchange);
  bool stop_clients();

  Options options_;
  Clock& clock_;
  std::string id_;
  obs::Metrics metrics_;
  UniqueFd lock_;  ///< of `dir`, over etcd
  std::string secret_check_;
  std::unique_ptr<cluster::MetaStore> store_;
  cluster::EmbeddedStore* embedded_ = nullptr;  ///< below store_, if it is one
  std::optional<security::RedirectSigner> signer_;
  std::optional<security::NodeAuth> auth_;
  std::unique_ptr<http::Loops> loops_;
  /// For leases, the cluster's state, heartbeats and the internal listener (docs/decisions/005).
  std::unique_ptr<http::Loops> vital_;
  http::Client client_;
  std::optional<cluster::ClusterView> view_;
  std::optional<Suspects> suspects_;
  std::unique_ptr<http::TaskGroup> followers_;
  Front public_;
  Front relay_;
  Front internal_;
  std::optional<cluster::Membership> membership_;
  cluster::Absences absences_;
  std::unique_ptr<http::TaskGroup> keeper_;
  std::unique_ptr<http::TaskGroup> background_;
  std::optional<cluster::NodeStats> stats_;
  std::optional<cluster::NodeConfig> config_;
  std::atomic<unsigned> put_status_{307};
  std::atomic<std::chrono::milliseconds> grace_{};
  std::optional<cluster::NodeContext> context_;
  std::optional<Jobs> jobs_;
  std::optional<Services> services_;
  RedundancyBoard redundancy_;
  std::atomic<std::chrono::milliseconds> redundancy_interval_{std::chrono::minutes(1)};
  bool stopped_ = false;
  bool all_ended_ = true;  ///< as far as stop() has come
};

}  // namespace tarn::proxy
