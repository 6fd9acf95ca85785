#include "target/process/target.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "common/api/mirror_props.h"
#include "common/base/event.h"
#include "common/base/fail_point.h"
#include "common/base/memory_limit.h"
#include "common/base/node_file.h"
#include "common/base/run_blocking.h"
#include "common/cluster/admin/node_actions.h"
#include "common/cluster/node/announced.h"
#include "common/cluster/node/patience.h"
#include "common/cluster/node/secret_check.h"
#include "common/cluster/state/cluster_end.h"
#include "common/cluster/state/cluster_file.h"
#include "common/cluster/store/gateway_store.h"
#include "common/cluster/store/metered_store.h"
#include "common/http/loop_watch.h"
#include "common/http/node_auth_filter.h"
#include "common/http/request_metrics.h"
#include "common/obs/log.h"
#include "common/security/purposes.h"
#include "target/drives/drive_reports.h"
#include "target/drives/empty_drives.h"
#include "target/drives/mountpaths.h"
#include "target/drives/open_drives.h"
#include "target/repair/drive_scrub.h"
#include "target/repair/rebuild_metrics.h"
#include "target/request/admission.h"
#include "target/request/handlers.h"
#include "target/request/list_moving.h"
#include "target/routes.h"
#include "target/settings.h"
#include "target/upstream/inventory.h"
#include "target/upstream/requests.h"
#include "target/upstream/write_mark.h"

namespace tarn::target {
namespace {

constexpr std::size_t kIndexCacheBytes = 32U << 20U;
constexpr std::size_t kIndexWriteBufferBytes = 32U << 20U;
constexpr auto kOwnerSoon = std::chrono::seconds(3);
constexpr const char* kHeartbeats = "GET /v1/internal/heartbeat ";

/// Time that a drive is missing before what it holds is evicted. A write upstream that it has a
/// mark of may be under way for as long as the mark is open.
std::chrono::nanoseconds evict_after(const Options& options) {
  const std::chrono::nanoseconds wanted = options.drive_out_after;
  return SAFETY("safety.outlast_marks") ? std::max<std::chrono::nanoseconds>(wanted, kMarkOpen)
                                        : wanted;
}

/// Has the drives act on a change of the cluster's state.
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

}  // namespace

Target::Target(const Options& options) : options_(options), loops_(options.threads) {}

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

/// Counts drives that are away for a while, too; at least one.
std::uint32_t Target::drive_count() const {
  const auto placed = store_->placed_drives();
  const auto stays = [](const auto& each) { return !each.drive || !each.drive->draining(); };
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

Task<Status> Target::serve(std::optional<http::Router>& router, http::Exchange& exchange) {
  if (!serves_) co_return fail(Errc::unavailable, "this target is starting");
  co_return co_await (*router)(exchange);
}

/// The listeners are bound before the node joins (the map needs their ports) and answer 503 until
/// all is there that serves them.
Status Target::start_listeners() {
  const auto gated = [this](std::optional<http::Router>& router) -> http::Handler {
    return [this, &router](http::Exchange& exchange) { return serve(router, exchange); };
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

/// Waits until the names that are ours may be written here: usually a few hundredths of a second.
/// An operator who starts a cluster node by node need not wait for what comes with a later node.
Task<void> Target::wait_until_owner() {
  EventListener changes(view_->changed(), co_await asio::this_coro::executor);
  const auto patience = std::chrono::steady_clock::now() + kOwnerSoon;
  while (std::chrono::steady_clock::now() < patience) {
    const auto state = view_->state();
    if (state->ownership->settled >= state->map.version) co_return;
    co_await changes.wait_until(patience);
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
      UpstreamServers::load(options_.upstream_endpoints, security::process_environment(), clock_));
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

/// Applies what the cluster and this node are configured with, from here on.
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

/// Tables of paths and metrics, before the listeners serve.
void Target::open_routes() {
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
  auto& pending =
      metrics_.gauge("tarn_copies_pending",
                     "names of which other replicas may lack the newest version that is here");
  metrics_.before_scrape(
      [this, &pending] { pending.Set(static_cast<double>(node_->pending.count())); });
  export_scrubs(metrics_, *node_);
  export_rebuilds(metrics_, *node_);
  export_upstream(metrics_, *upstream_, *cold_reads_);
  export_space(metrics_, *space_);
  export_downloads(metrics_, downloads_);
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
  // A new target would make drives its own that were emptied a moment ago.
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
  membership_->acknowledge_with([this] { return owned_->status(); });
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
                 DriveAdmin::Hooks{[this](const auto& drive) { look_after(drive, true); },
                                   [this] { drives_changed(); },
                                   [this](auto set) { owned_->take_drive_set(set); }});
  open_routes();
  run_blocking(loop.executor(), upstream_->fetch_credentials());
  // Before it joins: from then on it owns names.
  serves_ = true;
  http::Loop& vital = vital_loop();
  TRY_OK(run_blocking(vital.executor(), membership_->join()));
  act_on_change(*store_, cluster::ClusterState(), view_->state());
  keeper_.spawn(vital.executor(), "lease", membership_->keep());
  tasks_.spawn(vital.executor(), "cluster state", view_->follow());
  start_background();
  run_blocking(loop.executor(), wait_until_owner());
  TRY_OK(write_node());
  obs::log("target").info("ready node={} public={} internal={}", id_,
                          membership_->self().public_url, membership_->self().internal_url);
  return {};
}

Status Target::write_node() const {
  return write_node_file(options_.dir, {id_, "target", membership_->self().public_url, "",
                                        membership_->self().internal_url, admin_->paths()});
}

}  // namespace tarn::target
