#include "target/replica/fetch_to_owner.h"

#include <chrono>
#include <utility>

#include "common/api/status.h"
#include "common/base/encoding.h"
#include "common/obs/log.h"
#include "target/node/node_call.h"
#include "target/replica/move_copy.h"
#include "target/replica/node_copies.h"

namespace tarn::target {
namespace {

/// Time for which an object is asked for anew that other targets move meanwhile.
constexpr std::chrono::seconds kFetchToOwnerPatience{10};

}  // namespace

Task<Status> fetch_from(TargetNode& node, const ObjectName& name, const cluster::Node& holder,
                        std::uint64_t map_version, std::uint64_t bytes) {
  api::Query query;
  query.set("bucket", std::to_string(raw(name.bucket)));
  query.set("object", name.object);
  query.set("map", std::to_string(map_version));
  const std::string id = holder.id;
  CO_TRY(http::Url address, http::parse_url(holder.internal_url));
  auto request =
      signed_call(node, http::Method::post, std::string(kGivePath) + "?" + query.encode());
  auto answer =
      co_await node.client.call(std::move(address), std::move(request), transfer_limits(bytes));
  if (!answer)
    co_return fail(Errc::unavailable, "{} is still on target t[{}], which does not answer: {}",
                   name.uname, id, answer.error().message);
  if (answer->status != 200 && answer->status != 421)
    co_return fail(Errc::unavailable,
                   "{} is still on target t[{}], which cannot give it now: {} ({})", name.uname, id,
                   api::error_message_of(answer->body), answer->status);
  co_return Status();
}

Task<Result<Newest>> fetch_to_owner(TargetNode& node, const ObjectRequest& wanted) {
  const auto until = std::chrono::steady_clock::now() + kFetchToOwnerPatience;
  while (std::chrono::steady_clock::now() < until) {
    CO_TRY(auto newest, co_await find_complete(node, wanted));
    if (newest.holder == nullptr || !newest.exists()) co_return newest;
    CO_TRY_OK(co_await fetch_from(node, wanted.name, *newest.holder, newest.state->map.version,
                                  newest.record->file_bytes()));
  }
  co_return fail(Errc::unavailable, "{} is being moved by others all the time; try again",
                 wanted.display());
}

Task<Status> give_to_owner(TargetNode& node, http::Request& request) {
  const auto bucket_id = parse_u64(request.query().get("bucket"));
  const auto map_version = parse_u64(request.query().get("map"));
  const std::string object(request.query().get("object"));
  if (!bucket_id || !map_version || object.empty())
    co_return fail(Errc::invalid_argument, "move/give: bucket, object and map are required");
  CO_TRY(const auto state, co_await node.view.at_least(*map_version, 0));
  const auto* bucket = state->bmd.find(BucketId(*bucket_id));
  const std::string asker(
      security::NodeAuth::node_of(request.head().field(security::NodeAuth::kHeader)));
  const cluster::Node* replica = state->map.find(asker);
  if (state->map.version != *map_version || replica == nullptr) {
    http::Response other_map(421, http::kText, "this target acts on a newer map\n");
    co_return co_await request.exchange.respond(std::move(other_map));
  }
  if (bucket == nullptr)
    co_return fail(Errc::bucket_not_found, "bucket {} does not exist (any more)", *bucket_id);
  const ObjectName name = name_in(*bucket, object);
  CO_TRY_OK(co_await resolve_copies(node, name));
  CO_TRY(const auto outgoing, co_await open_outgoing(node, name, *bucket));
  if (outgoing) {
    const Receiver to{*replica, *map_version, state->bmd.version};
    CO_TRY_OK(
        co_await send_copy(node, to, outgoing->attribute, outgoing->object.get(), {.anew = true}));
    obs::log("target").debug("given req={} to={} object={}", request.exchange.request_id(), asker,
                             name.uname);
  }
  co_return co_await request.exchange.respond(http::Response(200));
}

}  // namespace tarn::target
