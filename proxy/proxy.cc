#include "proxy/proxy.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <future>
#include <iterator>
#include <sys/file.h>
#include <system_error>
#include <utility>
#include <vector>

#include "common/base/node_file.h"
#include "common/base/run_blocking.h"
#include "common/base/settings.h"
#include "common/cluster/admin/node_actions.h"
#include "common/cluster/node/announced.h"
#include "common/cluster/node/coordination.h"
#include "common/cluster/node/dismissal.h"
#include "common/cluster/node/patience.h"
#include "common/cluster/node/primary.h"
#include "common/cluster/node/secret_check.h"
#include "common/cluster/node/service_config.h"
#include "common/cluster/state/bucket_changes.h"
#include "common/cluster/state/cluster_end.h"
#include "common/cluster/store/metered_store.h"
#include "common/http/loop_watch.h"
#include "common/http/node_auth_filter.h"
#include "common/http/request_metrics.h"
#include "common/obs/log.h"
#include "common/security/purposes.h"
#include "proxy/admin/cluster_end.h"
#include "proxy/admin/job_kinds.h"
#include "proxy/admin/keep_redundancy.h"
#include "proxy/bucket/buckets.h"
#include "proxy/jobs/peer_jobs.h"
#include "proxy/jobs/rebalance_job.h"
#include "proxy/object/redirect.h"
#include "proxy/object/relay.h"
#include "proxy/routes.h"
#include "proxy/watch/meta_gateway.h"

namespace tarn::proxy {
namespace {

constexpr double kStopSeconds = 10;

/// Held as long as it is open. conflict when another process holds it.
Result<UniqueFd> lock_directory(const std::filesystem::path& directory) {
  const std::string name = (directory / "lock").string();
  UniqueFd fd(::open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!fd.valid()) return fail_errno(errno, "open " + name);
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) == 0) return fd;
  return fail(Errc::conflict, "another proxy runs in {}: give every proxy a --dir of its own",
              directory.string());
}

/// Entry of this proxy in the cluster map.
cluster::Node node_of(const std::string& id, const Options& options, const http::Server& listener,
                      const http::Server& relay, const http::Server& internal,
                      const std::string& own) {
  cluster::Node node;
  node.id = id;
  node.role = cluster::Role::proxy;
  node.public_url = options.advertise.empty() ? listener.url(own) : options.advertise;
  while (node.public_url.ends_with('/')) node.public_url.pop_back();
  node.relay_url = relay.url(own);
  node.internal_url = internal.url(own);
  return node;
}

}  // namespace

Proxy::Proxy(Options options, Clock& clock) : options_(std::move(options)), clock_(clock) {}

Proxy::~Proxy() { stop(); }

Status Proxy::start() {
  TRY_OK(open_store());
  loops_ = std::make_unique<http::Loops>(options_.threads);
  vital_ = std::make_unique<http::Loops>("vital");
  TRY_OK(load_cluster());
  TRY_OK(listen());
  TRY_OK(join());
  TRY_OK(configure());
  open_routes();
  return publish();
}

/// The process that has the embedded store open, or the lock, is the one proxy of this directory:
/// only then are its files touched.
Status Proxy::open_store() {
  std::error_code error;
  std::filesystem::create_directories(options_.dir, error);
  if (error) return fail(Errc::io, "--dir {}: {}", options_.dir.string(), error.message());
  const bool embedded = options_.etcd.endpoints.empty();
  TRY_OK(embedded ? open_embedded() : open_shared());
  TRY_OK(remove_node_file(options_.dir));
  TRY(id_, load_or_create_node_id(options_.dir, "proxy"));
  TRY(const auto secret,
      options_.secret_file.empty()
          ? security::ClusterSecret::load_or_create(options_.dir / "cluster.secret")
          : security::ClusterSecret::load(options_.secret_file));
  if (!embedded) secret_check_ = cluster::fingerprint(secret);
  signer_.emplace(secret.derive(security::kRedirectPurpose));
  auth_.emplace(secret.derive(security::kNodeAuthPurpose), id_, clock_);
  return {};
}

Status Proxy::open_embedded() {
  TRY(auto opened, cluster::EmbeddedStore::open(options_.dir / "meta", clock_));
  embedded_ = opened.get();
  store_ = cluster::metered(std::move(opened), metrics_);
  return {};
}

Status Proxy::open_shared() {
  TRY(lock_, lock_directory(options_.dir));
  TRY(auto etcd, cluster::open_etcd(options_.etcd));
  store_ = cluster::metered(std::move(etcd), metrics_);
  return {};
}

/// A proxy that knows its cluster never makes another one: a store without it has lost its data.
Task<Status> Proxy::enter_cluster() {
  const std::string known = embedded_ != nullptr ? "" : known_cluster(options_.dir);
  if (known.empty()) {
    CO_TRY_OK(co_await cluster::bootstrap(*store_, options_.default_bucket, clock_, secret_check_));
  }
  if (embedded_ == nullptr) {
    const Status ours = co_await cluster::check_secret(*store_, secret_check_);
    if (!ours && ours.error().code == Errc::not_found && !known.empty())
      co_return fail(Errc::not_found,
                     "the meta store has lost cluster {}, or is another one (tarn cluster recover)",
                     known);
    CO_TRY_OK(ours);
  }
  CO_TRY_OK(co_await view_->load());
  const std::string uuid = view_->state()->uuid;
  if (!known.empty() && known != uuid)
    co_return fail(
        Errc::conflict,
        "{} belongs to cluster {}, the meta store holds cluster {}: give another --dir, or "
        "the right --meta",
        options_.dir.string(), known, uuid);
  if (embedded_ == nullptr && known.empty()) CO_TRY_OK(remember_cluster(options_.dir, uuid));
  co_return Status();
}

Status Proxy::load_cluster() {
  const auto loop = vital_->at(0).executor();
  view_.emplace(*store_, clock_, options_.lease.poll_every());
  TRY_OK(run_blocking(loop, cluster::patiently([this] { return enter_cluster(); })));
  suspects_.emplace(*view_, client_, *auth_, metrics_, options_.suspect_after);
  suspects_->start(vital_->at(0));
  followers_ = std::make_unique<http::TaskGroup>();
  followers_->spawn(loop, "cluster state", view_->follow());
  obs::log("proxy").info("cluster loaded node={} cluster={} smap={}", id_, view_->state()->uuid,
                         view_->state()->map.version);
  return {};
}

Status Proxy::listen() {
  stats_.emplace(metrics_, cluster::Role::proxy, id_);
  TRY_OK(listen_on(public_, *loops_, "public", options_.listen));
  TRY_OK(listen_on(relay_, *loops_, "relay", options_.relay));
  TRY_OK(listen_on(internal_, *vital_, "internal", options_.internal));
  return {};
}

Status Proxy::listen_on(Front& front, http::Loops& loops, const std::string& name,
                        const std::string& address) {
  front.name = name;
  http::Server::Options server;
  server.name = name;
  server.address = address;
  server.node = "p[" + id_ + "]";
  server.limits = options_.service.limits;
  server.handler = handler_of(front);
  // Not on the internal one: there the handler checks the caller first.
  if (&front != &internal_)
    server.instant = [&front](http::Exchange& exchange) {
      const http::Router* router = front.open.load(std::memory_order_acquire);
      return router != nullptr && router->answer_at_once(exchange);
    };
  server.observer = http::observe_requests(metrics_, name);
  if (&front != &internal_) server.observer = stats_->observe(std::move(server.observer));
  front.server = std::make_unique<http::Server>(loops, std::move(server));
  TRY_OK(front.server->start());
  http::export_server(metrics_, name, *front.server);
  return {};
}

/// Only nodes of the cluster may call the internal listener, whatever they ask.
http::Handler Proxy::handler_of(Front& front) {
  http::Handler handler = [&front](http::Exchange& exchange) { return serve(front, exchange); };
  return &front == &internal_ ? http::authenticated(*auth_, std::move(handler)) : handler;
}

Task<Status> Proxy::serve(Front& front, http::Exchange& exchange) {
  const http::Router* router = front.open.load(std::memory_order_acquire);
  if (router == nullptr) co_return fail(Errc::unavailable, "this proxy is starting or stopping");
  const Status served = co_await (*router)(exchange);
  co_return served;
}

Status Proxy::join() {
  const auto loop = vital_->at(0).executor();
  const cluster::RemotePeer remote = cluster::find_remote_peer(options_.etcd.endpoints);
  const auto self = node_of(id_, options_, *public_.server, *relay_.server, *internal_.server,
                            remote.own_address);
  TRY_OK(cluster::check_announced(self, remote));
  membership_.emplace(*store_, *view_, self, clock_, options_.lease);
  TRY_OK(run_blocking(loop, membership_->join()));
  keeper_ = std::make_unique<http::TaskGroup>();
  keeper_->spawn(loop, "lease", membership_->keep());
  if (embedded_ == nullptr)
    keeper_->spawn(loop, "primary", cluster::keep_primary(*store_, *view_, *membership_));
  keeper_->spawn(loop, "dismissal", cluster::obey_dismissal(*view_, *membership_, nullptr));
  const auto leader = embedded_ == nullptr ? cluster::Leader::primary : cluster::Leader::this_proxy;
  keeper_->spawn(loop, "coordinator",
                 cluster::coordinate(*store_, *view_, *membership_, clock_, leader,
                                     {.out_after = options_.out_after,
                                      .proxy_out_after = options_.proxy_out_after,
                                      .tombstone_keep = options_.tombstone_keep},
                                     absences_));
  return {};
}

/// From here on the changes for the cluster and this node are in force, and stay so.
Status Proxy::configure() {
  auto started = cluster::started_with(options_.service);
  started["redirect_put_status"] = std::to_string(options_.redirect_put_status);
  started["redundancy.interval"] = duration_text(redundancy_interval_.load());
  grace_ = options_.service.shutdown_grace;
  put_status_ = static_cast<unsigned>(options_.redirect_put_status);
  config_.emplace(options_.dir, std::move(started));
  cluster::act_on_service_settings(*config_, options_.service,
                                   [this](const http::ServiceSettings& now) {
                                     grace_ = now.shutdown_grace;
                                     for (Front* front : {&public_, &relay_, &internal_})
                                       front->server->set_patience(now.limits);
                                   });
  config_->act_on("redirect_put_status",
                  [this](const std::string& text) { put_status_ = text == "302" ? 302 : 307; });
  config_->act_on("redundancy.interval", [this](const std::string& text) {
    if (const auto interval = parse_duration(text)) redundancy_interval_ = *interval;
  });
  TRY_OK(config_->load());
  view_->on_change([this](const auto&, const auto& now) { config_->take(now.config); });
  config_->take(view_->state()->config);
  return {};
}

void Proxy::open_routes() {
  auto& redirects = metrics_.counter("tarn_redirects_total", "Requests sent on to a target.");
  context_.emplace(cluster::NodeContext{*view_, *membership_, metrics_, clock_, clock_.boot_time(),
                                        [this] { return readiness(); }, *stats_, nullptr,
                                        *config_});
  background_ = std::make_unique<http::TaskGroup>();
  jobs_.emplace(
      JobsNode{*store_,
               clock_,
               *background_,
               {id_, membership_->incarnation()},
               [this] { return membership_->lease().valid(); },
               [this](const std::string& proxy) { return view_->state()->live.contains(proxy); }});
  background_->spawn(loops_->at(0).executor(), "statistics",
                     http::every(cluster::NodeStats::kInterval, [this] { stats_->tick(); }));
  http::watch_loops(metrics_, *loops_, *background_);
  http::watch_loops(metrics_, *vital_, *background_);
  services_.emplace(Services{options_, clock_, *store_, *view_, *membership_, *suspects_, client_,
                             *signer_, *auth_, redirects, *jobs_, *background_, *context_,
                             membership_->self().relay_url, put_status_, absences_});
  jobs_->drive_with([this](Job job) { return drive_job(*services_, std::move(job)); });
  background_->spawn(loops_->at(0).executor(), "jobs' records", jobs_->follow());
  background_->spawn(loops_->at(0).executor(), "jobs", jobs_->tend());
  background_->spawn(loops_->at(0).executor(), "rebalances", note_rebalances(*services_));
  background_->spawn(loops_->at(0).executor(), "end of the cluster",
                     carry_out_cluster_end(*services_));
  background_->spawn(loops_->at(0).executor(), "ends of buckets", finish_destroying(*services_));
  background_->spawn(loops_->at(0).executor(), "redundancy",
                     keep_redundancy(*services_, redundancy_, redundancy_interval_));
  const auto open = [](Front& front, std::vector<http::Route> routes) {
    front.router = std::make_unique<http::Router>(std::move(routes));
    front.open.store(front.router.get(), std::memory_order_release);
  };
  const auto with_node_routes = [this](std::vector<http::Route> routes) {
    std::vector<http::Route> all{metrics_route(*services_, redundancy_)};
    auto of_all_nodes = cluster::node_routes(*context_);
    std::erase_if(of_all_nodes, [](const auto& route) { return route.pattern == "/metrics"; });
    std::move(of_all_nodes.begin(), of_all_nodes.end(), std::back_inserter(all));
    std::move(routes.begin(), routes.end(), std::back_inserter(all));
    return all;
  };
  auto internal = peer_job_routes(*services_);
  for (auto& route : cluster::internal_node_routes(*context_)) internal.push_back(std::move(route));
  if (embedded_ != nullptr)
    for (auto& route : meta_gateway_routes(*embedded_)) internal.push_back(std::move(route));
  open(internal_, with_node_routes(std::move(internal)));
  open(public_, with_node_routes(client_routes(*services_, redirect_object, redirect_at_once)));
  open(relay_, with_node_routes(client_routes(*services_, relay_object, nullptr)));
}

Status Proxy::readiness() const {
  if (membership_->dismissed())
    return fail(Errc::unavailable, "this proxy was taken out of the cluster");
  if (!membership_->lease().valid())
    return fail(Errc::unavailable, "no lease for {} s: the meta store cannot be reached",
                membership_->lease().stale_seconds());
  return {};
}

Status Proxy::publish() {
  const cluster::Node& self = membership_->self();
  TRY_OK(write_node_file(options_.dir, {.id = id_,
                                        .role = "proxy",
                                        .public_url = self.public_url,
                                        .relay_url = self.relay_url,
                                        .internal_url = self.internal_url,
                                        .drives = {}}));
  obs::log("proxy").info("proxy ready node={} public={} relay={} internal={}", id_, self.public_url,
                         self.relay_url, self.internal_url);
  return {};
}

/// Both listeners at once: each may take the whole grace.
bool Proxy::stop_clients() {
  std::vector<std::future<bool>> ends;
  for (Front* front : {&public_, &relay_})
    if (front->server)
      ends.push_back(std::async(std::launch::async,
                                [this, front] { return front->server->stop(grace_.load()); }));
  bool all_ended = true;
  for (auto& end : ends) all_ended = end.get() && all_ended;
  return all_ended;
}

bool Proxy::stop() {
  if (std::exchange(stopped_, true)) return all_ended_;
  const auto note = [this](bool ended) { all_ended_ = all_ended_ && ended; };
  note(stop_clients());
  if (background_) note(background_->close(kStopSeconds));
  if (keeper_) note(keeper_->close(kStopSeconds));
  if (membership_) run_blocking(vital_->at(0).executor(), membership_->leave());
  if (suspects_) note(suspects_->stop());
  if (followers_) note(followers_->close(kStopSeconds));
  if (embedded_ != nullptr) embedded_->end_watches();
  if (internal_.server) note(internal_.server->stop(std::chrono::milliseconds(0)));
  for (http::Loops* loops : {loops_.get(), vital_.get()}) {
    if (loops == nullptr) continue;
    loops->run_on_each([this](http::Loop&) { client_.close_idle(); });
    loops->stop();
  }
  if (store_) static_cast<void>(remove_node_file(options_.dir));
  // As long as it is not gone, a start finds it in the store again.
  if (view_ && cluster::is_ending(view_->state()->map))
    static_cast<void>(forget_cluster(options_.dir));
  embedded_ = nullptr;
  store_.reset();  // no task runs any more
  return all_ended_;
}

}  // namespace tarn::proxy
