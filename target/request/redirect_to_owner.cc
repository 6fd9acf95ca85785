#include "target/request/redirect_to_owner.h"

#include <algorithm>

#include "common/api/request_path.h"
#include "common/base/encoding.h"
#include "common/cluster/state/client_addresses.h"
#include "target/replica/node_copies.h"

namespace tarn::target {
namespace {

constexpr std::int64_t kSendOnLifeSeconds = 360;  // as a proxy's
/// From a former owner to the present one, from there to who has it still, and, when it has moved
/// meanwhile, back; one more for a map that changed on the way.
constexpr std::uint64_t kHopsMax = 4;

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

const cluster::Node* next_replica(const TargetNode& node, const http::Request& request,
                                  const ObjectRequest& wanted) {
  const auto replicas = replicas_of(*wanted.state->ownership->map, wanted.name.uname,
                                    replica_count_of(node, wanted.name.bucket));
  const auto here = std::find(replicas.begin(), replicas.end(), node.id);
  if (here == replicas.end() || replicas.size() < 2) return nullptr;
  const auto hops = parse_u64(request.query().get(kHops)).value_or(0);
  const bool may_come_back = request.query().get(kLeftSlow) == "1";
  if (hops + 1 >= replicas.size() + (may_come_back ? 1 : 0)) return nullptr;
  std::vector<std::string> others(here + 1, replicas.end());
  others.insert(others.end(), replicas.begin(), here);
  const auto is_live = [&](const std::string& id) {
    return wanted.state->live.contains(id) && wanted.state->map.find(id) != nullptr;
  };
  const auto next = std::find_if(others.begin(), others.end(), is_live);
  return next == others.end() ? nullptr : wanted.state->map.find(*next);
}

}  // namespace tarn::target
