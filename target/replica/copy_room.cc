#include "target/replica/copy_room.h"

#include <algorithm>
#include <utility>

#include "common/api/status.h"
#include "common/base/encoding.h"
#include "common/base/fail_point.h"
#include "common/base/gather.h"
#include "target/drive/space_rules.h"
#include "target/node/node_call.h"
#include "target/replica/away_drive.h"

namespace tarn::target {
namespace {

using namespace std::chrono_literals;

constexpr http::CallLimits kCopyRoomAskLimits{.connect = 1s, .total = 2s};
/// Short, since the caller looks at the map between two such calls.
constexpr http::CallLimits kGlanceLimits{.connect = 200ms, .total = 300ms};
constexpr std::string_view kLagField = "Tarn-Drive";
constexpr std::string_view kHangs = "hangs";

/// True if a drive here would take it: the one where it belongs, or another (ObjectStore::create).
bool any_drive_has_room(const TargetNode& node, std::uint64_t size) {
  const SpaceLimits limits = node.store.space_limits();
  const auto drives = node.store.drives();
  return std::any_of(drives.begin(), drives.end(), [&](const auto& drive) {
    return drive->takes_files() && drive->in_service() &&
           has_room(drive->space(), limits, size, limits.out_of_space);
  });
}

Task<Result<http::ClientResponse>> call_replica(TargetNode& node, std::string path, std::string id,
                                                http::CallLimits limits) {
  const auto state = node.view.state();
  const cluster::Node* replica = state->map.find(id);
  if (replica == nullptr) co_return fail(Errc::not_found, "target t[{}] is not in the map", id);
  CO_TRY(http::Url address, http::parse_url(replica->internal_url));
  auto request = signed_call(node, http::Method::get, std::move(path));
  co_return co_await node.client.call(std::move(address), std::move(request), limits);
}

Task<Status> copy_room_ask(TargetNode& node, std::string path, std::string id) {
  const auto answer = co_await call_replica(node, std::move(path), id, kCopyRoomAskLimits);
  if (!answer) co_return Status();
  if (says_drive_lags(*answer))
    co_return fail(Errc::unavailable, "target t[{}]: {}", id, answer->body);
  if (answer->status != 507) co_return Status();
  co_return fail(Errc::no_space, "target t[{}]: {}", id, api::error_message_of(answer->body));
}

std::string copy_room_path_of(const ObjectName& name, Generation generation, std::uint64_t size) {
  api::Query query;
  query.set("bucket", std::to_string(raw(name.bucket)));
  query.set("object", name.object);
  query.set("size", std::to_string(size));
  query.set("version", std::to_string(generation.map_version));
  query.set("incarnation", std::to_string(generation.incarnation));
  query.set("counter", std::to_string(generation.counter));
  return std::string(kRoomPath) + "?" + query.encode();
}

}  // namespace

Status keeps_up(const TargetNode& node, const ObjectName& name) {
  const Drive* drive = node.store.drive_for(name.uname);
  if (drive == nullptr) return {};
  if (drive->hangs()) return fail(Errc::timeout, "drive {} does not answer", drive->path());
  return drive->not_overloaded();
}

http::Response drive_lags(const Error& why) {
  http::Response out(503, http::kText, why.message);
  const bool hangs = why.code == Errc::timeout;
  out.set(std::string(kLagField), std::string(hangs ? kHangs : "behind")).set("Retry-After", "1");
  return out;
}

bool says_drive_lags(const http::ClientResponse& answer) {
  return answer.status == 503 && !answer.field(kLagField).empty();
}

Task<Status> check_room(TargetNode& node, const ObjectName& name, Generation generation,
                        std::uint64_t size, std::vector<std::string> replicas) {
  if (!SAFETY("safety.copies_room")) co_return Status();
  const std::string path = copy_room_path_of(name, generation, size);
  std::vector<Task<Status>> calls;
  calls.reserve(replicas.size());
  for (std::string& id : replicas) calls.push_back(copy_room_ask(node, path, std::move(id)));
  const auto said = co_await gather(std::move(calls));
  for (const Status& each : said) CO_TRY_OK(each);
  co_return Status();
}

Task<Status> check_answers(TargetNode& node, const ObjectName& name, std::string id) {
  const auto answer =
      co_await call_replica(node, copy_room_path_of(name, {}, 0), id, kGlanceLimits);
  if (!answer || !says_drive_lags(*answer) || answer->field(kLagField) != kHangs)
    co_return Status();
  co_return fail(Errc::unavailable, "target t[{}]: {}", id, answer->body);
}

Task<Status> tell_room(TargetNode& node, http::Request& request) {
  const auto& query = request.query();
  const auto bucket = parse_u64(query.get("bucket"));
  const auto size = parse_u64(query.get("size"));
  const auto version = parse_u64(query.get("version"));
  const auto incarnation = parse_u64(query.get("incarnation"));
  const auto counter = parse_u64(query.get("counter"));
  const std::string object(query.get("object"));
  if (!bucket || !size || !version || !incarnation || !counter || object.empty())
    co_return fail(Errc::invalid_argument,
                   "room: bucket, object, size and the parts of a generation are required");
  const auto state = node.view.state();
  const auto* record = state->bmd.find(BucketId(*bucket));
  if (record == nullptr) co_return fail(Errc::bucket_not_found, "there is no such bucket");
  const ObjectName name = name_in(*record, object);
  if (const Status kept = keeps_up(node, name); !kept)
    co_return co_await request.exchange.respond(drive_lags(kept.error()));
  if (any_drive_has_room(node, *size))
    co_return co_await request.exchange.respond(http::Response(200));
  CO_TRY(const auto present, co_await find_here(node, name));
  const Generation wanted{*version, *incarnation, *counter};
  const bool has_it = !present.empty() && present.front().record.generation >= wanted;
  if (has_it) co_return co_await request.exchange.respond(http::Response(200));
  co_return fail(Errc::no_space,
                 "no drive of this target has room for {} bytes more (bytes free on each: "
                 "what=mountpaths). Delete objects or add drives",
                 *size);
}

}  // namespace tarn::target
