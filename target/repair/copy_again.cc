#include "target/repair/copy_again.h"

#include <nlohmann/json.hpp>

#include "common/api/status.h"
#include "common/api/upstream_props.h"
#include "common/base/buffer_pool.h"
#include "common/base/encoding.h"
#include "common/obs/log.h"
#include "target/coded/put_tombstone.h"
#include "target/drive/block_reader.h"
#include "target/node/bad_slices.h"
#include "target/node/node_call.h"
#include "target/repair/drive_scrub.h"
#include "target/replica/move_copy.h"
#include "target/replica/node_copies.h"

namespace tarn::target {
namespace {

constexpr const char* kAgainPath = "/v1/internal/copies/again";

spdlog::logger& copy_again_log() { return obs::log("copies"); }

/// corrupt or io when what is here is not what was stored, or cannot be read. Null: nothing is
/// here.
Task<Result<std::shared_ptr<OpenObject>>> read_through(TargetNode& node, ObjectName name) {
  CO_TRY(auto object, co_await node.store.open_object(std::move(name)));
  if (!object) co_return std::move(object);
  const PooledBuffer buffer(PooledBuffer::kBlockBytes);
  BlockReader blocks(*object, TurnFor::background);
  while (true) {
    CO_TRY(const std::size_t got, co_await blocks.next(buffer.span()));
    if (got == 0) co_return std::move(object);
  }
}

/// Has `id` send what it has. Ok: we have it.
Task<Status> ask_for_copy(TargetNode& node, const ObjectName& name, std::string id,
                          std::uint64_t size) {
  const auto state = node.view.state();
  const cluster::Node* replica = state->map.find(id);
  if (replica == nullptr) co_return fail(Errc::unavailable, "target t[{}] is not in the map", id);
  CO_TRY(http::Url address, http::parse_url(replica->internal_url));
  api::Query query;
  query.set("bucket", std::to_string(raw(name.bucket)));
  query.set("object", name.object);
  query.set("map", std::to_string(state->map.version));
  query.set("bmd", std::to_string(state->bmd.version));
  auto request =
      signed_call(node, http::Method::post, std::string(kAgainPath) + "?" + query.encode());
  const http::CallLimits limits{.total = transfer_limits(size).stall};
  auto answer = co_await node.client.call(std::move(address), std::move(request), limits);
  if (!answer)
    co_return fail(Errc::disconnected, "target t[{}] did not answer: {}", id,
                   answer.error().message);
  if (answer->status == 200) co_return Status();
  co_return fail(api::errc_of_answer(answer->status, answer->body), "target t[{}]: {}", id,
                 api::error_message_of(answer->body));
}

/// True: it was bad, and is made anew.
Task<Result<bool>> mend(TargetNode& node, const ObjectName& name) {
  const auto whole = co_await read_through(node, name);
  if (whole) co_return false;
  if (!is_bad_file(whole.error())) co_return fail(whole.error());
  CO_TRY(const auto found, co_await node.store.find_all(name));
  if (found.empty() || found.front().record.kind != io::ObjectRecord::Kind::object) co_return false;
  const std::uint64_t size = found.front().record.file_bytes();
  if (!found.front().record.coding)
    note_bad_file(node, *found.front().drive, name, found.front().record.file, whole.error());
  const auto map = node.owned.state()->map;
  Error last{Errc::unavailable, "no other replica"};
  for (const std::string& id : replicas_of(*map, name.uname, replica_count_of(node, name.bucket))) {
    if (id == node.id) continue;
    const Status given = co_await ask_for_copy(node, name, id, size);
    if (given) co_return true;
    last = given.error();
  }
  co_return fail(Errc::unavailable, "{}; {}", whole.error().message, last.message);
}

}  // namespace

Task<void> mend_from_others(TargetNode& node, ObjectName name) {
  name = as_of_now(node, std::move(name));
  const Drive* drive = node.store.drive_for(name.uname);
  if (drive == nullptr || !drive->in_service()) co_return;  // the drive is bad
  const auto mended = co_await mend(node, name);
  if (!mended)
    copy_again_log().warn("bad copy stays object={} err={}", name.object, mended.error().message);
  else if (*mended)
    copy_again_log().info("bad copy made anew object={}", name.object);
}

Task<Result<bool>> evict_unreadable(TargetNode& node, ObjectName name) {
  CO_TRY(const ObjectRequest wanted, request_of(node, std::move(name)));
  if (!api::has_upstream(wanted.bucket.name)) co_return false;
  CO_TRY(const auto found, co_await node.store.find_all(wanted.name));
  if (found.empty() || found.front().record.kind != io::ObjectRecord::Kind::object) co_return false;
  const auto whole = co_await read_through(node, wanted.name);
  if (whole) co_return false;
  if (!is_bad_file(whole.error())) co_return fail(whole.error());
  CO_TRY_OK(co_await delete_version(node, wanted, found.front().record.generation));
  copy_again_log().warn("bad file evicted, upstream has it object={} err={}", wanted.display(),
                        whole.error().message);
  co_return true;
}

Task<Status> give_again(TargetNode& node, http::Request& request) {
  const auto& query = request.query();
  const auto bucket_id = parse_u64(query.get("bucket"));
  const auto map_version = parse_u64(query.get("map"));
  const auto bmd_version = parse_u64(query.get("bmd"));
  std::string object(query.get("object"));
  if (!bucket_id || !map_version || !bmd_version || object.empty())
    co_return fail(Errc::invalid_argument, "again: bucket, object, map and bmd are required");
  const std::string caller(
      security::NodeAuth::node_of(request.head().field(security::NodeAuth::kHeader)));
  CO_TRY(const auto state, co_await node.view.at_least(*map_version, *bmd_version));
  const auto* bucket = state->bmd.find(BucketId(*bucket_id));
  if (bucket == nullptr) co_return fail(Errc::bucket_not_found, "the bucket is gone");
  const cluster::Node* to = state->map.find(caller);
  if (to == nullptr) co_return fail(Errc::conflict, "t[{}] is not in the map", caller);
  const ObjectName name = name_in(*bucket, std::move(object));
  CO_TRY_OK(co_await resolve_copies(node, name));
  CO_TRY(const auto from, co_await node.store.open_object(name));
  if (!from) co_return fail(Errc::object_not_found, "{} is not here", name.object);
  if (!pending_by(from->record()).empty())
    co_return fail(Errc::unavailable, "{} is being changed; try again", name.object);
  io::ObjectAttribute attribute{name.bucket, bucket->placed_as(), name.object, from->record()};
  const Receiver receiver{*to, state->map.version, state->bmd.version};
  CO_TRY_OK(co_await send_copy(node, receiver, std::move(attribute), from.get(), {.anew = true}));
  co_return co_await request.exchange.respond(http::Response(200));
}

}  // namespace tarn::target
