#include "common/api/request_path.h"
#include "target/bucket_mirror.h"
#include "target/move_jobs.h"
#include "target/node.h"

namespace tarn::target {
namespace {

using Function = Task<Status> (*)(TargetNode&, http::Request&);

http::RouteHandler bind(TargetNode& node, Function function) {
  return [&node, function](http::Request& request) { return function(node, request); };
}

/// Marks a read that a target has sent on once: never twice, should two maps differ.
constexpr std::string_view kSentOn = "via";

/// The target that owns what an unsigned read asks for, when that is another one; else null.
/// AIStore's clients that read from targets hash the name that a bucket has now, which is not the
/// one that places its objects once it was renamed.
const cluster::Node* owner_elsewhere(const TargetNode& node, const http::Request& request,
                                     const cluster::ClusterState& state) {
  if (request.query().find(kSentOn) || request.parts.size() < 2) return nullptr;
  const auto name = api::bucket_from(request.parts[0], request.query());
  const auto* bucket = name ? state.bmd.find(*name) : nullptr;
  if (bucket == nullptr) return nullptr;
  const auto* owner = cluster::owner_of(state.map, bucket->placement_name(request.parts[1]));
  return owner == nullptr || owner->id == node.id ? nullptr : owner;
}

Task<Status> send_on(http::Request& request, std::string node, std::string owner_url) {
  api::Query query = request.query();
  query.set(kSentOn, node);
  http::Response response(302, http::kText, "follow the redirect: curl -L\n");
  response.set("Location", fmt::format("{}{}?{}", owner_url, request.target.path, query.encode()));
  co_return co_await request.exchange.respond(std::move(response));
}

http::RouteHandler bind_read(TargetNode& node, Function function) {
  return [&node, function](http::Request& request) {
    if (request.query().find("u")) return function(node, request);  // signed: a proxy knew
    const auto state = node.view.state();
    const cluster::Node* owner = owner_elsewhere(node, request, *state);
    return owner == nullptr ? function(node, request)
                            : send_on(request, node.id, owner->public_url);
  };
}

}  // namespace

std::vector<http::Route> public_routes(TargetNode& node) {
  return {
      {"GET", "/v1/objects/*/**", "read an object, or a range of it", bind_read(node, get_object)},
      {"HEAD", "/v1/objects/*/**", "what is known of an object", bind_read(node, head_object)},
      {"PUT", "/v1/objects/*/**", "store an object (as a proxy redirected it)",
       bind(node, put_object)},
      {"DELETE", "/v1/objects/*/**", "delete an object (as a proxy redirected it)",
       bind(node, delete_object)},
      {"PATCH", "/v1/objects/*/**", "custom metadata (as a proxy redirected it)",
       bind(node, patch_object)},
      {"POST", "/v1/objects/*/**", "rename-obj, check-lock (as a proxy redirected it)",
       bind(node, post_object)},
  };
}

std::vector<http::Route> internal_routes(TargetNode& node) {
  return {
      {"GET", "/v1/internal/list", "a page of a bucket on this target", bind(node, list_objects)},
      {"GET", "/v1/internal/summary", "what a bucket holds on this target",
       bind(node, summarize_bucket)},
      {"POST", "/v1/internal/copy", "copy what a bucket holds on this target; a line on progress",
       bind(node, copy_bucket)},
      {"DELETE", "/v1/internal/copy", "stop such a copy", bind(node, stop_copy)},
      {"GET", "/v1/internal/redundancy", "how many copies a bucket's objects have here",
       bind(node, count_copies)},
      {"POST", "/v1/internal/mirror", "as many copies as the bucket wants; a line on progress",
       bind(node, mirror_bucket)},
      {"POST", "/v1/internal/move/offer", "which of these names are not here, or older",
       bind(node, answer_offer)},
      {"PUT", "/v1/internal/move/copy", "take a copy that keeps its generation",
       bind(node, take_copy)},
      {"POST", "/v1/internal/rebalance",
       "give other targets what a map places there; a line on progress",
       bind(node, start_rebalance)},
      {"DELETE", "/v1/internal/rebalance", "stop such a rebalance", bind(node, stop_move)},
      {"PATCH", "/v1/internal/rebalance", "what rebalance and resilver may take",
       bind(node, change_move_limits)},
      {"POST", "/v1/internal/resilver",
       "move objects to the drives where they belong; a line on progress",
       bind(node, start_resilver)},
      {"DELETE", "/v1/internal/resilver", "stop such a resilver", bind(node, stop_move)},
      {"GET", "/v1/internal/heartbeat", "a line a second while this target lives",
       bind(node, heartbeat)},
  };
}

}  // namespace tarn::target
