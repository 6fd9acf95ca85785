#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <string>

#include "common/base/clock.h"
#include "common/base/error.h"
#include "common/cluster/admin/node_routes.h"
#include "common/cluster/node/membership.h"
#include "common/cluster/node/service_config.h"
#include "common/cluster/state/cluster_view.h"
#include "common/http/client.h"
#include "common/http/loops.h"
#include "common/http/router.h"
#include "common/http/server.h"
#include "common/obs/metrics.h"
#include "common/security/cluster_secret.h"
#include "common/security/node_auth.h"
#include "common/security/redirect_token.h"
#include "target/drives/drive_admin.h"
#include "target/drives/options.h"
#include "target/drives/slow_drives.h"
#include "target/node/node.h"
#include "target/upstream/cold_reads.h"
#include "target/upstream/download.h"
#include "target/upstream/space.h"
#include "target/upstream/write_through.h"

namespace tarn::target {

/// One target process: made, started, stopped, in that order, from the main thread. The members
/// stand in the order in which they start; stop() goes the other way round.
class Target {
 public:
  /// `options` outlive it. Throws std::system_error when no thread can be started.
  explicit Target(const Options& options);
  Target(const Target&) = delete;
  Target& operator=(const Target&) = delete;

  /// Everything up to node.json. After an error the process has to end: half-started, there is
  /// nothing to finish.
  [[nodiscard]] Status start();
  /// After a start that succeeded: hands the names over, finishes running transfers, for at most
  /// shutdown.grace, and ends the tasks and threads of drives, those that hang excepted.
  void stop();
  /// After stop(), when the whole cluster ends: empties the drives if that was asked for, and notes
  /// that this node has ended. ok when the cluster goes on.
  [[nodiscard]] Status end_with_cluster();

 private:
  /// The loop of the lease, the cluster's state and the heartbeats.
  http::Loop& vital_loop() { return SAFETY("safety.vital_loop") ? vital_.at(0) : loops_.at(0); }
  http::Server::Options server_options(const char* name, const std::string& address);
  cluster::Node self(const std::string& own_address) const;
  Task<Status> serve(std::optional<http::Router>& router, http::Exchange& exchange);
  Status start_listeners();
  Status open_meta();
  void connect_moves();
  Status configure();
  void open_routes();
  void start_background();
  Status connect_upstream();
  void look_after(const std::shared_ptr<Drive>& drive, bool came);
  void watch_disks();
  void drives_changed();
  [[nodiscard]] std::uint32_t drive_count() const;
  [[nodiscard]] Status write_node() const;
  Task<Status> enter_cluster();
  Task<Result<bool>> is_empty();
  Task<void> wait_until_owner();
  Task<Status> note_end();
  Task<void> give_notice();
  void hand_over(const std::future<void>& last_reader);

  const Options& options_;
  Clock& clock_ = system_clock();
  BootTime started_ = clock_.boot_time();
  SlowDrives slow_drives_;
  obs::Metrics metrics_;
  http::Loops loops_;
  http::Loops vital_{"vital"};  // docs/decisions/005
  http::Client client_;
  http::TaskGroup tasks_;
  http::TaskGroup keeper_;  // of the lease: ends before it is released
  std::optional<security::ClusterSecret> secret_;
  std::optional<security::NodeAuth> auth_;      // of a node whose id is not known yet
  std::optional<security::NodeAuth> own_auth_;  // with our id
  std::optional<security::RedirectSigner> signer_;
  std::unique_ptr<cluster::MetaStore> meta_;
  std::optional<cluster::ClusterView> view_;
  std::optional<IndexMemory> memory_;
  std::optional<ObjectStore> store_;
  std::optional<cluster::Membership> membership_;
  std::optional<OwnedNames> owned_;
  DownloadCounts downloads_;
  std::optional<Upstream> upstream_;
  std::optional<TargetNode> node_;
  std::optional<ColdReads> cold_reads_;
  std::optional<WriteThrough> write_through_;
  std::optional<SpaceKeeper> space_;
  std::optional<cluster::NodeStats> stats_;
  std::optional<cluster::NodeConfig> config_;
  std::atomic<std::chrono::milliseconds> grace_{options_.service.shutdown_grace};
  std::optional<DriveAdmin> admin_;
  std::optional<cluster::NodeContext> context_;
  std::optional<http::Router> public_router_;
  std::optional<http::Router> internal_router_;
  std::optional<http::Server> public_;
  std::optional<http::Server> internal_;
  std::string id_;
  std::uint64_t drive_set_ = 0;  // at the start
  std::atomic<bool> serves_{false};
};

}  // namespace tarn::target
