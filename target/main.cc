// tarn-target: a storage node. Start order: loops, meta store, drives, listeners, membership; stop
// in reverse.

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <future>
#include <iostream>
#include <optional>
#include <system_error>

#include <boost/asio/steady_timer.hpp>
#include <nlohmann/json.hpp>

#include "common/api/mirror_props.h"
#include "common/base/encoding.h"
#include "common/base/event.h"
#include "common/base/fail_point.h"
#include "common/base/memory_limit.h"
#include "common/base/node_file.h"
#include "common/base/process.h"
#include "common/base/run_blocking.h"
#include "common/cluster/admin/node_actions.h"
#include "common/cluster/admin/node_routes.h"
#include "common/cluster/node/announced.h"
#include "common/cluster/node/dismissal.h"
#include "common/cluster/node/patience.h"
#include "common/cluster/node/secret_check.h"
#include "common/cluster/node/service_config.h"
#include "common/cluster/state/cluster_end.h"
#include "common/cluster/state/cluster_file.h"
#include "common/cluster/store/gateway_store.h"
#include "common/cluster/store/metered_store.h"
#include "common/http/loop_watch.h"
#include "common/http/node_auth_filter.h"
#include "common/http/request_metrics.h"
#include "common/http/server.h"
#include "common/obs/log.h"
#include "common/security/cluster_secret.h"
#include "common/security/node_auth.h"
#include "common/security/purposes.h"
#include "target/coded/piece_home.h"
#include "target/command_line.h"
#include "target/drives/drive_admin.h"
#include "target/drives/drive_reports.h"
#include "target/drives/empty_drives.h"
#include "target/drives/mountpaths.h"
#include "target/drives/open_drives.h"
#include "target/drives/options.h"
#include "target/drives/slow_drives.h"
#include "target/job/bucket_mirror.h"
#include "target/job/erase_all.h"
#include "target/node/node.h"
#include "target/rebalance/move_home.h"
#include "target/rebalance/tell_wish.h"
#include "target/repair/double_pieces.h"
#include "target/repair/drive_scrub.h"
#include "target/repair/heed_losses.h"
#include "target/repair/keep_coded.h"
#include "target/repair/keep_recoded.h"
#include "target/repair/keep_wishes.h"
#include "target/repair/lost_records.h"
#include "target/repair/rebuild_metrics.h"
#include "target/replica/keep_copies.h"
#include "target/replica/tombstones.h"
#include "target/request/admission.h"
#include "target/request/handlers.h"
#include "target/request/list_moving.h"
#include "target/routes.h"
#include "target/settings.h"
#include "target/upstream/cold_reads.h"
#include "target/upstream/download.h"
#include "target/upstream/inventory.h"
#include "target/upstream/requests.h"
#include "target/upstream/space.h"
#include "target/upstream/write_mark.h"
#include "target/upstream/write_through.h"

namespace tarn::target {
namespace {

constexpr std::size_t kIndexCacheBytes = 32U << 20U;
constexpr std::size_t kIndexWriteBufferBytes = 32U << 20U;
constexpr auto kProbeEvery = std::chrono::seconds(1);
constexpr auto kOwnerSoon = std::chrono::seconds(3);
constexpr auto kCloseEvery = std::chrono::milliseconds(500);
constexpr auto kMainIdleLook = std::chrono::milliseconds(10);
constexpr auto kHungMost = std::chrono::seconds(5);
constexpr double kHungLeast = 1;  // seconds
constexpr const char* kHeartbeats = "GET /v1/internal/heartbeat ";
constexpr auto kNoteMost = std::chrono::seconds(30);
constexpr auto kNoteEvery = std::chrono::milliseconds(500);

spdlog::logger& log() { return obs::log("target"); }

/// Looks after one drive, once a second, while it is one of the target's.
Task<void> watch_drive(ObjectStore& store, std::shared_ptr<Drive> drive) {
  asio::steady_timer timer(co_await asio::this_coro::executor);
  while (store.drive_at(drive->path()) == drive) {
    static_cast<void>(co_await drive->probe());
    timer.expires_at(next_tick(kProbeEvery));
    co_await timer.async_wait(asio::use_awaitable);
  }
}

/// How long a drive is missing before what it holds is evicted. A write upstream that it has a mark
/// of may be under way for as long as the mark is open.
std::chrono::nanoseconds evict_after(const Options& options) {
  const std::chrono::nanoseconds wanted = options.drive_out_after;
  return SAFETY("safety.outlast_marks") ? std::max<std::chrono::nanoseconds>(wanted, kMarkOpen)
                                        : wanted;
}

Task<void> close_detached(DriveAdmin& admin) {
  asio::steady_timer timer(co_await asio::this_coro::executor);
  while (true) {
    timer.expires_at(next_tick(kCloseEvery));
    co_await timer.async_wait(asio::use_awaitable);
    co_await admin.close_detached();
    co_await admin.tend_leaving();
  }
}

Task<void> tend_away(DriveAdmin& admin) {
  asio::steady_timer timer(co_await asio::this_coro::executor);
  while (true) {
    timer.expires_at(next_tick(kProbeEvery));
    co_await timer.async_wait(asio::use_awaitable);
    co_await admin.tend_away();
  }
}

/// What a change of the cluster's state means for the drives.
void act_on_change(ObjectStore& store, const cluster::ClusterState& before,
                   std::shared_ptr<const cluster::ClusterState> after) {
  for (const BucketId bucket : after->bmd.dead)
    if (!before.bmd.dead.contains(bucket)) store.forget_bucket(bucket);
  for (const auto& [name, bucket] : after->bmd.buckets) {
    const auto* was = before.bmd.find(bucket.id);
    if (api::copies_of(bucket.props) != (was == nullptr ? 0 : api::copies_of(was->props)))
      store.mirror().disturb();
  }
  if (before.map.version == after->map.version && before.bmd.version == after->bmd.version &&
      before.config.version == after->config.version)
    return;
  // On the drives' threads: of many buckets it is a long text.
  const auto text = [after = std::move(after)] { return cluster::encode_cluster_file(*after); };
  for (const auto& drive : store.drives()) drive->save_cluster_state(text);
}

/// Everything of a running target, in the order of its making.
class Target {
 public:
  explicit Target(const Options& options) : options_(options), loops_(options.threads) {}

  Status start();
  void stop();  ///< behind a start that succeeded
  /// Behind stop(): what is left to do when the whole cluster ends.
  Status end_with_cluster();

 private:
  /// The loop of the lease, the cluster's state and the heartbeats.
  http::Loop& vital_loop() { return SAFETY("safety.vital_loop") ? vital_.at(0) : loops_.at(0); }
  http::Server::Options server_options(const char* name, const std::string& address);
  cluster::Node self(const std::string& own_address) const;
  Status start_listeners();
  Status open_meta();
  void connect_moves();
  Status configure();
  Status connect_upstream();
  void look_after(std::shared_ptr<Drive> drive, bool came);
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
  http::TaskGroup keeper_;  // of the lease: ends before it is given back
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

cluster::Node Target::self(const std::string& own_address) const {
  cluster::Node node;
  node.id = id_;
  node.role = cluster::Role::target;
  const cluster::Advertised& advertised = options_.advertise;
  node.public_url = advertised.url.empty() ? public_->url(own_address) : advertised.url;
  node.client_addresses = advertised.networks;
  node.internal_url = internal_->url(own_address);
  node.digest = cluster::placement_digest(id_);
  node.weight = static_cast<double>(options_.weight);
  node.drive_set = drive_set_;
  node.drives = drive_count();
  node.zone = options_.zone;
  return node;
}

/// Those that are away for a while, too; at least one.
std::uint32_t Target::drive_count() const {
  const auto placed = store_->placed_drives();
  const auto stays = [](const auto& each) { return !each.drive || !each.drive->vacating(); };
  const auto count = std::count_if(placed.begin(), placed.end(), stays);
  return std::max(1U, static_cast<std::uint32_t>(count));
}

http::Server::Options Target::server_options(const char* name, const std::string& address) {
  http::Server::Options its;
  its.name = name;
  its.address = address;
  its.node = "t[" + id_ + "]";
  its.limits = options_.service.limits;
  its.observer = stats_->observe(http::observe_requests(metrics_, name));
  return its;
}

/// The listeners are bound before the node joins (the map needs their ports) and answer 503 until
/// all is there that serves them.
Status Target::start_listeners() {
  const auto gated = [this](std::optional<http::Router>& router) -> http::Handler {
    return [this, &router](http::Exchange& exchange) -> Task<Status> {
      if (!serves_) co_return fail(Errc::unavailable, "this target is starting");
      co_return co_await (*router)(exchange);
    };
  };
  auto its = server_options("public", options_.listen);
  its.handler = gated(public_router_);
  public_.emplace(loops_, std::move(its));
  TRY_OK(public_->start());
  its = server_options("internal", options_.internal);
  its.handler = http::authenticated(*auth_, gated(internal_router_));
  its.apart = {&vital_loop(), kHeartbeats};
  internal_.emplace(loops_, std::move(its));
  return internal_->start();
}

/// etcd itself, or the store of the one proxy, which hears nodes with the secret only.
Status Target::open_meta() {
  if (!options_.etcd.endpoints.empty()) {
    TRY(auto etcd, cluster::open_etcd(options_.etcd));
    meta_ = cluster::metered(std::move(etcd), metrics_);
    return {};
  }
  const auto sign = [this](http::ClientRequest& request) {
    request.fields.push_back({std::string(security::NodeAuth::kHeader),
                              auth_->sign(http::to_string(request.method), request.target)});
  };
  meta_ = cluster::metered(
      std::make_unique<cluster::GatewayStore>(client_, std::vector{options_.join}, sign), metrics_);
  return {};
}

Task<Status> Target::enter_cluster() {
  if (!options_.etcd.endpoints.empty())
    CO_TRY_OK(co_await cluster::check_secret(*meta_, cluster::fingerprint(*secret_)));
  const Status loaded = co_await view_->load();
  co_return loaded;
}

/// A target that is not in the map may join only so.
Task<Result<bool>> Target::is_empty() {
  if (!owned_->idle()) co_return false;
  CO_TRY(const bool nothing, co_await holds_nothing(*store_, view_->state()));
  co_return nothing;
}

/// Until the names that are ours may be written here: usually a few hundredths of a second. Whoever
/// starts a cluster node by node need not wait for what comes with a later one.
Task<void> Target::wait_until_owner() {
  asio::steady_timer timer(co_await asio::this_coro::executor);
  const auto patience = std::chrono::steady_clock::now() + kOwnerSoon;
  while (std::chrono::steady_clock::now() < patience) {
    const auto state = view_->state();
    if (state->ownership->settled >= state->map.version) co_return;
    timer.expires_after(std::chrono::milliseconds(10));
    co_await timer.async_wait(asio::use_awaitable);
  }
}

/// Copies are taken as the newest map has it.
void Target::connect_moves() {
  view_->on_change(
      [this](const auto&, const auto& now) { node_->moves.learn(now.ownership->map); });
  node_->moves.learn(view_->state()->ownership->map);
}

Status Target::connect_upstream() {
  TRY(auto servers,
      UpstreamServers::load(options_.upstream_endpoints, security::process_environment()));
  TRY(auto tls, http::TlsContext::load({}));
  upstream_.emplace(std::move(servers), clock_, std::move(tls), options_.upstream_connections,
                    options_.upstream_timeout,
                    [this] { return view_->state()->map.placeable_targets().size(); });
  cold_reads_.emplace(*node_, *upstream_);
  node_->cold = &*cold_reads_;
  write_through_.emplace(*node_, *upstream_, cold_reads_->board());
  node_->upstream_writes = &*write_through_;
  space_.emplace(*node_);
  node_->room = &*space_;
  return {};
}

/// From here on what the cluster and this node were told is in force, and stays so.
Status Target::configure() {
  config_.emplace(options_.dir, started_with(options_));
  cluster::act_on_service_settings(*config_, options_.service,
                                   [this](const http::ServiceSettings& now) {
                                     grace_ = now.shutdown_grace;
                                     public_->set_patience(now.limits);
                                     internal_->set_patience(now.limits);
                                   });
  act_on_settings(*config_, options_, *node_);
  TRY_OK(config_->load());
  view_->on_change([this](const auto&, const auto& now) { config_->take(now.config); });
  config_->take(view_->state()->config);
  return {};
}

Status Target::start() {
  std::error_code problem;
  std::filesystem::create_directories(options_.dir, problem);
  if (problem) return fail(Errc::io, "directory {}: {}", options_.dir.string(), problem.message());
  TRY_OK(remove_node_file(options_.dir));
  TRY(auto secret, security::ClusterSecret::load(options_.secret_file));
  secret_.emplace(std::move(secret));
  signer_.emplace(secret_->derive(security::kRedirectPurpose));
  const std::string auth_key = secret_->derive(security::kNodeAuthPurpose);
  auth_.emplace(auth_key, "joining", clock_);
  TRY_OK(open_meta());
  view_.emplace(*meta_, clock_, options_.lease.poll_every());
  http::Loop& loop = loops_.at(0);
  TRY_OK(run_blocking(loop.executor(), cluster::patiently([this] { return enter_cluster(); })));

  memory_.emplace(kIndexCacheBytes, kIndexWriteBufferBytes);
  // It would make drives its own that were emptied a moment ago.
  if (cluster::is_ending(view_->state()->map) && !any_has_identity(options_.drives))
    return fail(Errc::conflict, "this cluster is being decommissioned: no new target joins it");
  const DriveOpener opener{options_, *memory_, std::make_shared<CachePolicy>(memory_limit())};
  TRY(DriveList drives, load_drive_list(options_.dir));
  TRY(OpenedDrives opened, opener.open_all(drives, *view_->state()));
  drives.drive_set = opened.drive_set;
  drive_set_ = opened.drive_set;
  id_ = opened.node_id;
  own_auth_.emplace(auth_key, id_, clock_);
  store_.emplace(std::move(opened.drives), std::move(opened.missing));
  store_->mirror().remember(std::move(opened.ledger), opened.missing_ids, options_.dir);
  for (auto& [path, buckets] : opened.evicted) store_->set_evicted(path, std::move(buckets));
  export_drives(metrics_, *store_);
  stats_.emplace(metrics_, cluster::Role::target, id_);
  watch_disks();
  view_->on_change(
      [this](const auto& before, const auto&) { act_on_change(*store_, before, view_->state()); });
  TRY_OK(start_listeners());
  const cluster::RemotePeer remote = cluster::find_remote_peer(options_.peers());
  const cluster::Node announced = self(remote.own_address);
  TRY_OK(cluster::check_announced(announced, remote));
  membership_.emplace(*meta_, *view_, announced, clock_, options_.lease);
  owned_.emplace(id_, *view_, *membership_);
  owned_->take_drive_set(drive_set_);
  owned_->take_drives(drive_count());
  membership_->acknowledge_with([this] { return owned_->word(); });
  membership_->empty_if([this] { return is_empty(); });
  node_.emplace(id_, *view_, *membership_, *store_, *signer_, *own_auth_, *owned_, clock_, loops_,
                options_.checksum_verify == "always");
  connect_moves();
  TRY_OK(connect_upstream());
  node_->append_timeout = options_.append_timeout;
  store_->set_space_limits(options_.limits());
  TRY_OK(configure());
  context_.emplace(cluster::NodeContext{*view_, *membership_, metrics_, clock_, started_,
                                        [this] { return readiness(*node_); }, *stats_,
                                        [this] {
                                          return drive_reports(*store_, store_->space_limits(),
                                                               admin_->leaving(), admin_->labels());
                                        },
                                        *config_,
                                        [this] {
                                          for (const auto& drive : store_->drives())
                                            store_->close_idle(*drive);
                                        }});
  admin_.emplace(*node_, clock_, opener, std::move(drives), std::move(opened.identities),
                 opened.missing_ids, evict_after(options_),
                 DriveAdmin::Hooks{[this](auto drive) { look_after(std::move(drive), true); },
                                   [this] { drives_changed(); },
                                   [this](auto set) { owned_->take_drive_set(set); }});
  const auto with_node_routes = [this](std::vector<http::Route> routes) {
    for (auto& route : cluster::node_routes(*context_)) routes.push_back(std::move(route));
    return routes;
  };
  public_router_.emplace(with_node_routes(public_routes(*node_)));
  auto internal = internal_routes(*node_);
  for (auto& route : cluster::internal_node_routes(*context_)) internal.push_back(std::move(route));
  for (auto& route : mountpath_routes(*node_, *admin_)) internal.push_back(std::move(route));
  for (auto& route : upstream_routes(*node_, *upstream_, *cold_reads_))
    internal.push_back(std::move(route));
  for (auto& route : inventory_routes(*node_, *upstream_)) internal.push_back(std::move(route));
  for (auto& route : space_routes(*node_, *space_)) internal.push_back(std::move(route));
  for (auto& route : eviction_owner_routes(*node_)) internal.push_back(std::move(route));
  for (auto& route : download_routes(*node_, *upstream_, downloads_))
    internal.push_back(std::move(route));
  internal_router_.emplace(with_node_routes(std::move(internal)));
  http::export_server(metrics_, "public", *public_);
  http::export_server(metrics_, "internal", *internal_);
  http::watch_loops(metrics_, loops_, tasks_);
  http::watch_loops(metrics_, vital_, tasks_);
  // Before it joins: from then on it owns names.
  serves_ = true;
  http::Loop& vital = vital_loop();
  TRY_OK(run_blocking(vital.executor(), membership_->join()));
  act_on_change(*store_, cluster::ClusterState(), view_->state());
  keeper_.spawn(vital.executor(), "lease", membership_->keep());
  tasks_.spawn(vital.executor(), "cluster state", view_->follow());
  tasks_.spawn(loop.executor(), "statistics",
               http::every(cluster::NodeStats::kInterval, [this] { stats_->tick(); }));
  for (const auto& drive : store_->drives()) look_after(drive, false);
  tasks_.spawn(loop.executor(), "detached drives", close_detached(*admin_));
  tasks_.spawn(loop.executor(), "drives that are away", tend_away(*admin_));
  // Apart from those, which wait for their drives.
  tasks_.spawn(loop.executor(), "drive watch", http::every(kProbeEvery, [this] {
                 const auto drives = store_->drives();
                 for (const auto& drive : drives) drive->watch();
                 slow_drives_.look(drives);
               }));
  tasks_.spawn(loop.executor(), "copies on drives", keep_mirrors(*node_));
  tasks_.spawn(loop.executor(), "resilver wish", tell_wishes(*node_));
  tasks_.spawn(loop.executor(), "copies on nodes", keep_copies(*node_));
  auto& marked =
      metrics_.gauge("tarn_copies_unsettled",
                     "names of which other homes may lack the newest version that is here");
  metrics_.before_scrape(
      [this, &marked] { marked.Set(static_cast<double>(node_->marked.count())); });
  export_scrubs(metrics_, *node_);
  export_rebuilds(metrics_, *node_);
  export_upstream(metrics_, *upstream_, *cold_reads_);
  export_space(metrics_, *space_);
  export_downloads(metrics_, downloads_);
  tasks_.spawn(loop.executor(), "abandoned appends", drop_abandoned_appends(*node_));
  tasks_.spawn(loop.executor(), "abandoned uploads", write_through_->open_uploads().remove_left());
  tasks_.spawn(loop.executor(), "pieces", look_after_pieces(*node_));
  tasks_.spawn(loop.executor(), "coded objects", keep_coded(*node_));
  tasks_.spawn(loop.executor(), "losses", heed_losses(*node_));
  tasks_.spawn(loop.executor(), "lost records", give_lost_records(*node_));
  tasks_.spawn(loop.executor(), "double pieces", keep_pieces_single(*node_));
  tasks_.spawn(loop.executor(), "repair wishes", keep_wishes(*node_));
  tasks_.spawn(loop.executor(), "other codings", keep_recoded(*node_));
  TombstoneRules tombstones{options_.tombstone_keep, [this] { return admin_->all_in_service(); }};
  tasks_.spawn(loop.executor(), "tombstones", forget_tombstones(*node_, std::move(tombstones)));
  // Not beside the others, if there is another loop.
  tasks_.spawn(loops_.at(loops_.size() - 1).executor(), "rebalance", move_home(*node_));
  tasks_.spawn(loop.executor(), "dismissal",
               cluster::obey_dismissal(*view_, *membership_, [this] { return erase_all(*node_); }));
  run_blocking(loop.executor(), wait_until_owner());
  TRY_OK(write_node());
  log().info("ready node={} public={} internal={}", id_, membership_->self().public_url,
             membership_->self().internal_url);
  return {};
}

/// Runs until the drive is detached. `came`: it came after the start.
void Target::look_after(std::shared_ptr<Drive> drive, bool came) {
  drive->ring_on_health(node_->readiness_changed);
  tasks_.spawn(loops_.at(0).executor(), "probes of " + drive->path(), watch_drive(*store_, drive));
  tasks_.spawn(loops_.at(0).executor(), "space of " + drive->path(), space_->keep(drive));
  tasks_.spawn(loops_.at(0).executor(), "scrub of " + drive->path(),
               keep_scrubbed(*node_, drive, came));
}

void Target::watch_disks() {
  std::set<std::string> disks;
  for (const auto& drive : store_->drives())
    if (!drive->mount().disk.empty()) disks.insert(drive->mount().disk);
  stats_->watch_disks(std::move(disks));
}

void Target::drives_changed() {
  watch_disks();
  owned_->take_drives(drive_count());
  if (const Status written = write_node(); !written)
    log().warn("node.json not written err={}", written.error().message);
}

Status Target::write_node() const {
  return write_node_file(options_.dir, {id_, "target", membership_->self().public_url, "",
                                        membership_->self().internal_url, admin_->paths()});
}

/// Proxies send clients elsewhere, or tell them to come again, before nobody listens here any more.
Task<void> Target::give_notice() {
  node_->leaving = true;
  node_->readiness_changed->ring();
  if (!membership_->lease().valid()) co_return;  // they do so already
  asio::steady_timer timer(co_await asio::this_coro::executor);
  timer.expires_after(options_.shutdown_notice);
  co_await timer.async_wait(asio::use_awaitable);
}

/// Others may have our names as soon as no write is under way, while long readers get their rest.
void Target::hand_over(const std::future<void>& last_reader) {
  while (!owned_->idle() && last_reader.wait_for(kMainIdleLook) != std::future_status::ready) {
  }
  keeper_.close(5);  // or it would take a new lease when the old one is given back
  run_blocking(vital_loop().executor(), membership_->leave());
}

void Target::stop() {
  log().info("stopping node={}", id_);
  run_blocking(loops_.at(0).executor(), give_notice());
  const auto last_reader = std::async(std::launch::async, [this] { public_->stop(grace_.load()); });
  hand_over(last_reader);
  last_reader.wait();
  internal_->stop(std::chrono::seconds(2));
  // What hangs on a drive hangs for its tasks, its threads and other drives alike: one wait for
  // all.
  const auto until = std::chrono::steady_clock::now() + kHungMost;
  const auto left = [&] {
    const std::chrono::duration<double> time = until - std::chrono::steady_clock::now();
    return std::max(time.count(), kHungLeast);
  };
  tasks_.close(left());
  node_->aside.close(left());
  for (const auto& drive : store_->drives()) drive->stop(left());
  static_cast<void>(remove_node_file(options_.dir));
}

Status Target::end_with_cluster() {
  const auto state = view_->state();
  if (!cluster::target_is_to_end(*state, id_)) return {};
  if (cluster::ends_erased(state->map)) {
    if (const auto missing = store_->missing(); !missing.empty())
      return fail(Errc::unavailable, "drive {} is not there and cannot be emptied: {}",
                  missing.begin()->first, missing.begin()->second);
    std::vector<std::string> paths;
    for (const auto& drive : store_->drives()) paths.push_back(drive->path());
    TRY_OK(empty_drives(paths));
    log().warn("drives emptied node={} drives={}", id_, paths.size());
  }
  return run_blocking(loops_.at(0).executor(), note_end());
}

/// Proxies may be away for a moment.
Task<Status> Target::note_end() {
  asio::steady_timer timer(co_await asio::this_coro::executor);
  const auto until = std::chrono::steady_clock::now() + kNoteMost;
  while (true) {
    const Status noted = co_await cluster::note_ended(*meta_, id_);
    if (noted || std::chrono::steady_clock::now() > until) co_return noted;
    timer.expires_after(kNoteEvery);
    co_await timer.async_wait(asio::use_awaitable);
  }
}

int run(int argc, char** argv) {
  const auto said = parse_command_line(argc, argv);
  if (!said.has_value()) return said.error();
  const Options& options = *said;
  prepare_process();

  std::optional<Target> target;
  Status started;
  try {
    target.emplace(options);
    started = target->start();
  } catch (const std::system_error& problem) {
    started = fail(Errc::unavailable,
                   "cannot start a thread: {}; raise the limit (ulimit -u, TasksMax, pids.max) or "
                   "lower drive.threads",
                   problem.what());
  }
  if (!started) {
    std::cerr << "tarn-target: " << started.error().message << "\n";
    std::cerr.flush();
    std::_Exit(1);  // half-started: nothing to finish
  }
  log().info("asked to stop signal={}", wait_for_stop());
  target->stop();
  const Status ended = target->end_with_cluster();
  if (!ended)
    std::cerr << "tarn-target: the cluster ends, and this target did not in order (start it again, "
                 "or decommission without it: frc=true): "
              << ended.error().message << "\n";
  std::cerr.flush();
  std::_Exit(ended ? 0 : 1);  // all is durable; a drive that hangs must not keep the process
}

}  // namespace
}  // namespace tarn::target

int main(int argc, char** argv) { return tarn::target::run(argc, argv); }
