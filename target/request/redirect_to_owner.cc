#include "target/request/redirect_to_owner.h"

#include <algorithm>
#include <chrono>
#include <vector>

#include "common/api/request_path.h"
#include "common/base/encoding.h"
#include "common/cluster/state/client_addresses.h"
#include "target/node/node_call.h"
#include "target/replica/node_copies.h"

namespace tarn::target {
namespace {

constexpr std::int64_t kSendOnLifeSeconds = 360;  // as a proxy's
/// From a former owner to the present one, from there to who has it still, and, when it has moved
/// meanwhile, back; one more for a map that changed on the way.
constexpr std::uint64_t kHopsMax = 4;
constexpr http::CallLimits kReadyLimits{.connect = std::chrono::milliseconds(500),
                                        .total = std::chrono::milliseconds(500)};

Task<Status> send_to(TargetNode& node, http::Request& request, const ObjectRequest& wanted,
                     const cluster::Node& other, bool to_holder) {
  const std::uint64_t hops = parse_u64(request.query().get(kHops)).value_or(0);
  if (hops >= kHopsMax)
    co_return fail(Errc::unavailable, "{} moves between targets; try again", wanted.display());
  const std::int64_t now_ns = node.clock.wall_time().count();
  security::RedirectClaim claim;
  claim.method = request.head().method_text;
  claim.target_id = other.id;
  claim.uname = wanted.bucket.name.uname(wanted.name.object);
  claim.proxy_id = node.id;
  claim.issued_ns = now_ns;
  claim.expires_s = now_ns / 1'000'000'000 + kSendOnLifeSeconds;
  claim.map_version = wanted.state->map.version;
  claim.bmd_version = wanted.state->bmd.version;
  claim.length = wanted.claim ? wanted.claim->length : "";
  claim.request_id = request.exchange.request_id();
  api::Query query = request.query();
  query.set(kHops, std::to_string(hops + 1));
  query.set(kFromOwner, to_holder ? "1" : "");
  std::string url = cluster::url_for_client(other, request.exchange.remote_address());
  url += request.target.path;
  url += '?';
  node.signer.append_signed(url, claim, query);
  const auto method = request.head().method;
  const bool reads = method == http::Method::get || method == http::Method::head;
  http::Response response(reads ? 302 : 307, http::kText, "follow the redirect: curl -L\n");
  response.set("Location", url).set("Cache-Control", "no-store");
  co_return co_await request.exchange.respond(std::move(response));
}

}  // namespace

Task<Status> redirect_to_owner(TargetNode& node, http::Request& request,
                               const ObjectRequest& wanted) {
  co_return co_await send_to(node, request, wanted, *wanted.elsewhere, false);
}

Task<Status> redirect_to_holder(TargetNode& node, http::Request& request,
                                const ObjectRequest& wanted, const cluster::Node& holder) {
  co_return co_await send_to(node, request, wanted, holder, true);
}

Task<Status> send_to_faster(TargetNode& node, http::Request& request, const ObjectRequest& wanted,
                            const cluster::Node& other) {
  request.target.query.set(kLeftSlow, "1");
  co_return co_await send_to(node, request, wanted, other, true);
}

namespace {

/// Live replicas of a name, but this one, in the order in which a reader is sent to them.
std::vector<const cluster::Node*> next_replicas(const TargetNode& node,
                                                const http::Request& request,
                                                const ObjectRequest& wanted) {
  const auto replicas = replicas_of(*wanted.state->ownership->map, wanted.name.uname,
                                    replica_count_of(node, wanted.name.bucket));
  const auto here = std::find(replicas.begin(), replicas.end(), node.id);
  if (here == replicas.end() || replicas.size() < 2) return {};
  const auto hops = parse_u64(request.query().get(kHops)).value_or(0);
  const bool may_come_back = request.query().get(kLeftSlow) == "1";
  if (hops + 1 >= replicas.size() + (may_come_back ? 1 : 0)) return {};
  std::vector<std::string> others(here + 1, replicas.end());
  others.insert(others.end(), replicas.begin(), here);
  std::vector<const cluster::Node*> live;
  for (const std::string& id : others)
    if (const auto* other = wanted.state->map.find(id);
        other != nullptr && wanted.state->live.contains(id))
      live.push_back(other);
  return live;
}

}  // namespace

const cluster::Node* next_replica(const TargetNode& node, const http::Request& request,
                                  const ObjectRequest& wanted) {
  const auto live = next_replicas(node, request, wanted);
  return live.empty() ? nullptr : live.front();
}

Task<const cluster::Node*> answering_replica(TargetNode& node, const http::Request& request,
                                             const ObjectRequest& wanted) {
  for (const cluster::Node* other : next_replicas(node, request, wanted)) {
    auto call = signed_call(node, http::Method::get, std::string(kReadyPath));
    const auto answer = co_await ask_target(node, other->id, std::move(call), kReadyLimits);
    if (answer && answer->status == 200) co_return other;
  }
  co_return nullptr;
}

}  // namespace tarn::target
