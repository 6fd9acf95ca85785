// Copies on nodes: the owner's way of a new version to all replicas, and how a replica finds out
// whether what it holds is what all have.

#include "target/replica/node_copies.h"

#include <algorithm>
#include <set>

#include <nlohmann/json.hpp>

#include "common/api/coding_props.h"
#include "common/api/status.h"
#include "common/base/buffer_pool.h"
#include "common/base/check.h"
#include "common/base/encoding.h"
#include "common/base/fail_point.h"
#include "common/base/gather.h"
#include "common/base/hash.h"
#include "common/base/pause.h"
#include "common/obs/log.h"
#include "target/drive/block_reader.h"
#include "target/node/node_call.h"
#include "target/replica/away_drive.h"
#include "target/replica/bring_forward.h"
#include "target/replica/copy_room.h"
#include "target/replica/move_copy.h"
#include "target/replica/move_format.h"
#include "target/replica/newest.h"
#include "target/store/mirror_plan.h"

namespace tarn::target {
namespace {

using nlohmann::json;
using namespace std::chrono_literals;

/// No header and no JSON of a client carries such a key (api::check_custom_metadata).
constexpr std::string_view kMark = "\x01unsettled";
/// A replica that dies is out of the map when its lease has ended; the write then goes on without
/// it.
constexpr auto kReplicasMax = 8s;
constexpr auto kNodeCopiesLookAgain = 50ms;
/// Time for which a name that changes all the time is looked at anew before that is an error.
constexpr auto kResolveMax = 2s;
constexpr auto kDriveLookEvery = 2s;
/// give_to(): the drive of that replica hangs or lags. A write does not wait for it; it has ended
/// when it is tried again.
constexpr Errc kDriveLags = Errc::timeout;
constexpr std::size_t kNodeCopiesAnswerBytes = 4096;
constexpr http::CallLimits kNodeCopiesTellLimits{.connect = 1s, .total = 4s};

spdlog::logger& node_copies_log() { return obs::log("copies"); }

/// The block at `at` of a work file, most of it still in memory, compared with the checksum that
/// was taken when it came.
Task<Status> read_back(const VersionInFlight& outbound, std::span<std::byte> into,
                       std::uint64_t at) {
  // Checksums of all blocks, with which the version is published here.
  TARN_CHECK(outbound.file != nullptr && outbound.checksums != nullptr);
  TARN_CHECK(at / kBlockBytes < outbound.checksums->size());
  CO_TRY_OK(co_await outbound.file->drive().read_back(*outbound.file, into, at));
  if (crc32c(into) == (*outbound.checksums)[at / kBlockBytes]) co_return Status();
  co_return fail(Errc::corrupt, "drive {} gives back other bytes than were written",
                 outbound.file->drive().path());
}

/// Sends the blocks. Ends early when the receiver has answered.
Task<Status> node_copies_send_blocks(http::ClientStream& stream, const VersionInFlight& outbound) {
  const PooledBuffer buffer(PooledBuffer::kBlockBytes);
  const std::uint64_t size = outbound.attribute.record.file_bytes();
  std::optional<BlockReader> blocks;
  if (outbound.object != nullptr) blocks.emplace(*outbound.object);
  for (std::uint64_t at = 0; at < size && !stream.answer_ready(); at += kBlockBytes) {
    const auto bytes = buffer.span().first(std::min(kBlockBytes, size - at));
    if (blocks) {
      CO_TRY(const std::size_t got, co_await blocks->next(buffer.span()));
      TARN_CHECK(got == bytes.size());
    } else {
      CO_TRY_OK(co_await read_back(outbound, bytes, at));
    }
    const auto checksum = little_endian(crc32c(bytes));
    Status sent = co_await stream.write(std::as_bytes(std::span(checksum)));
    if (sent) sent = co_await stream.write(bytes);
    if (!sent) co_return Status();  // the receiver may have sent why: see its answer
  }
  co_return Status();
}

/// Ok: the replica has this version, or a newer one, durably.
Task<Status> give_to(TargetNode& node, const VersionInFlight& outbound, std::string id) {
  const auto state = node.view.state();
  const cluster::Node* replica = state->map.find(id);
  if (replica == nullptr) co_return fail(Errc::unavailable, "target t[{}] is not in the map", id);
  CO_TRY(http::Url address, http::parse_url(replica->internal_url));
  const std::string prelude = copy_prelude(outbound.attribute);
  const std::uint64_t size = outbound.attribute.record.file_bytes();
  auto request = signed_call(node, http::Method::put,
                             fmt::format("{}?map={}&bmd={}&unsettled=1", kCopyPath,
                                         state->map.version, state->bmd.version));
  CO_FAIL_POINT("copies.send");
  auto opened = co_await node.client.open(std::move(address), std::move(request),
                                          copy_length(prelude, size), transfer_limits(size));
  if (!opened)
    co_return fail(Errc::disconnected, "target t[{}] did not answer: {}", id,
                   opened.error().message);
  http::ClientStream stream = std::move(*opened);
  const Status begun = co_await stream.write(std::as_bytes(std::span(prelude)));
  if (begun && size > 0) CO_TRY_OK(co_await node_copies_send_blocks(stream, outbound));
  if (!stream.answer_ready()) static_cast<void>(co_await stream.finish());
  const auto answer = co_await stream.read_head();
  if (!answer)
    co_return fail(Errc::disconnected, "target t[{}] did not answer: {}", id,
                   answer.error().message);
  const std::string text = co_await read_text(stream, kNodeCopiesAnswerBytes);
  if (answer->status == 200) {
    CO_FAIL_POINT("copies.given");
    co_return Status();
  }
  if (says_drive_lags(*answer)) co_return fail(kDriveLags, "target t[{}]: {}", id, text);
  co_return fail(api::errc_of_answer(answer->status, text), "target t[{}]: {}", id,
                 api::error_message_of(text));
}

/// True if no former replica may still answer readers by an older map: all live targets have put
/// the present one in force, or the former replicas are replicas still.
bool former_replicas_know(const cluster::OwnershipState& state, const std::string& uname,
                          const cluster::ReplicaCount& count) {
  const auto replicas = replicas_of(*state.map, uname, count);
  const auto digest = cluster::placement_digest(uname);
  return std::all_of(state.map->past.begin(), state.map->past.end(), [&](const auto& set) {
    if (state.settled > set.last) return true;
    for (std::size_t i = 0; i < set.nodes.size(); ++i)
      if (set.nodes.is_replica(set.nodes.id(i), digest, count.at(set.last)) &&
          std::find(replicas.begin(), replicas.end(), set.nodes.id(i)) == replicas.end())
        return false;
    return true;
  });
}

std::vector<std::string> without(const std::vector<std::string>& ids,
                                 const std::set<std::string>& others) {
  std::vector<std::string> out;
  for (const std::string& id : ids)
    if (!others.contains(id)) out.push_back(id);
  return out;
}

/// Waits until the newest map no longer places the name there, or the drive hangs that has it in
/// hand.
Task<Status> while_replica(TargetNode& node, ObjectName name, std::string id) {
  auto look_at_drive = std::chrono::steady_clock::now() + kDriveLookEvery;
  while (true) {
    if (std::chrono::steady_clock::now() >= look_at_drive) {
      const Status answers = co_await check_answers(node, name, id);
      if (!answers) co_return fail(kDriveLags, "{}", answers.error().message);
      look_at_drive = std::chrono::steady_clock::now() + kDriveLookEvery;
    }
    const auto map = node.owned.state()->map;
    const auto replicas = replicas_of(*map, name.uname, replica_count_of(node, name.bucket));
    if (std::find(replicas.begin(), replicas.end(), id) == replicas.end()) break;
    co_await pause(kNodeCopiesLookAgain);
  }
  co_return fail(Errc::disconnected, "target t[{}] did not answer and is no longer a replica", id);
}

/// give_to(), which is abandoned when that is no replica any more: a process that stands still
/// holds up no caller for longer than its lease.
Task<Status> give_while_replica(TargetNode& node, const VersionInFlight& outbound, ObjectName name,
                                std::string id) {
  auto first =
      co_await first_of(give_to(node, outbound, id), while_replica(node, std::move(name), id));
  co_return first.index() == 0 ? std::get<0>(std::move(first)) : std::get<1>(std::move(first));
}

/// Takes the mark from our record when it is still of this generation.
Task<Status> clear_mark(TargetNode& node, const ObjectName& name, Generation generation) {
  const auto held = co_await node.store.locks().acquire(name.key());
  CO_TRY(auto found, co_await find_here(node, name));
  if (found.empty() || found.front().record.generation != generation ||
      pending_by(found.front().record).empty())
    co_return Status();
  const auto state = node.view.state();
  const auto* bucket = state->bmd.find(name.bucket);
  if (bucket == nullptr) co_return Status();
  io::ObjectRecord record = found.front().record;
  mark_complete(record);
  if (record.kind == io::ObjectRecord::Kind::tombstone) {
    CO_TRY_OK(co_await node.store.remove(name, std::move(found), std::move(record)));
  } else {
    Drive& drive = *found.front().drive;
    io::ObjectAttribute attribute{name.bucket, bucket->placed_as(), name.object, std::move(record)};
    CO_TRY_OK(co_await node.store.patch(name, drive, std::move(attribute)));
  }
  node.pending.resolved(name.bucket, name.object);
  co_return Status();
}

enum class WriterStatus : std::uint8_t {
  all_have_it,
  has_newer,  ///< one that all have
  gave_up,    ///< does not go on with it, or cannot
  unknown
};

/// Asks the writer of a version about it.
Task<WriterStatus> ask_writer(TargetNode& node, const ObjectName& name, std::string writer,
                              Generation generation) {
  const auto state = node.view.state();
  const cluster::Node* other = state->map.find(writer);
  // Without its lease it commits nothing and acknowledges nothing any more.
  if (other == nullptr || !state->live.contains(writer)) co_return WriterStatus::gave_up;
  if (writer == node.id)
    co_return node.owned.is_quiescent(name.uname) ? WriterStatus::gave_up : WriterStatus::unknown;
  const auto said = co_await ask_replica(node, state, name, writer, Look::as_it_is, generation);
  if (!said) co_return WriterStatus::unknown;
  const auto& record = said->record;
  if (!record || record->generation < generation) co_return WriterStatus::gave_up;
  if (pending_by(*record).empty())
    co_return record->generation == generation ? WriterStatus::all_have_it
                                               : WriterStatus::has_newer;
  co_return record->generation == generation ? WriterStatus::gave_up : WriterStatus::unknown;
}

/// Before one of several replicas has stored what another has no room for.
Task<Status> find_room(TargetNode& node, const ObjectName& name, const VersionInFlight& outbound,
                       std::vector<std::string> replicas) {
  const io::ObjectRecord& record = outbound.attribute.record;
  if (outbound.has_room || replicas.size() < 2 || record.kind != io::ObjectRecord::Kind::object)
    co_return Status();
  co_return co_await check_room(node, name, record.generation, record.file_bytes(),
                                std::move(replicas));
}

/// Sends what we hold to all present replicas that lack it.
Task<Status> send_ours(TargetNode& node, const ObjectName& name, Located here) {
  const auto state = node.view.state();
  const auto map = state->ownership->map;
  const auto* bucket = state->bmd.find(name.bucket);
  if (bucket == nullptr) co_return fail(Errc::bucket_not_found, "the bucket is gone");
  io::ObjectAttribute attribute{name.bucket, bucket->placed_as(), name.object,
                                std::move(here.record)};
  std::shared_ptr<OpenObject> object;
  if (attribute.record.kind == io::ObjectRecord::Kind::object) {
    if (here.drive->disabled())
      co_return fail(Errc::unavailable, "object {} lies on a disabled drive", name.object);
    CO_TRY(object, co_await here.drive->open_object(name.bucket, name.object));
    if (!object || object->record().generation != attribute.record.generation)
      co_return fail(Errc::unavailable, "object {} is being changed", name.object);
  }
  mark_pending(attribute.record, node.id);
  const VersionInFlight outbound{std::move(attribute), nullptr, nullptr, object.get()};
  const auto others = without(replicas_of(*map, name.uname, bucket->replica_count()), {node.id});
  CO_TRY_OK(co_await find_room(node, name, outbound, others));
  for (const std::string& id : others) {
    const Status given = co_await give_while_replica(node, outbound, name, id);
    if (!given && given.error().code == kDriveLags)
      co_return fail(Errc::unavailable, "{}", given.error().message);
    CO_TRY_OK(given);
  }
  if (node.view.state()->map.version != map->version)
    co_return fail(Errc::unavailable, "the cluster map changes; try again");
  co_return Status();
}

}  // namespace

cluster::ReplicaCount replica_count_of(const TargetNode& node, BucketId bucket) {
  const auto state = node.view.state();
  const auto* record = state->bmd.find(bucket);
  return record == nullptr ? 1 : record->replica_count();
}

std::vector<std::string> replicas_of(const cluster::Ownership& map, const std::string& uname,
                                     const cluster::ReplicaCount& count) {
  std::vector<std::string> out;
  const auto digest = cluster::placement_digest(uname);
  for (const auto& replica : map.current.replicas(digest, count.at(map.version)))
    if (replica.drive == 0) out.push_back(map.current.id(replica.node));
  return out;
}

bool is_replica(const TargetNode& node, const cluster::ClusterState& state,
                const std::string& uname, const cluster::ReplicaCount& count) {
  const cluster::Ownership& map = *state.ownership->map;
  return map.current.is_replica(node.id, cluster::placement_digest(uname), count.at(map.version));
}

std::function<bool(std::string_view)> names_to_show(
    const TargetNode& node, std::shared_ptr<const cluster::ClusterState> state, BucketId bucket) {
  const auto* record = state->bmd.find(bucket);
  if (record == nullptr || !record->replica_count().many()) return {};
  return [state = std::move(state), record, self = node.id](std::string_view name) {
    const auto digest = cluster::placement_digest(record->placement_name(name));
    return cluster::writer_of(*state->ownership->map, digest) == self;
  };
}

std::string_view pending_by(const io::ObjectRecord& record) {
  for (const auto& [key, value] : record.custom)
    if (key == kMark) return value;
  return {};
}

void mark_pending(io::ObjectRecord& record, std::string_view writer) {
  mark_complete(record);
  record.custom.emplace_back(kMark, writer);
}

void mark_complete(io::ObjectRecord& record) {
  std::erase_if(record.custom, [](const auto& pair) { return pair.first == kMark; });
}

bool forward_by_owner(const TargetNode& node, BucketId bucket) {
  if (!SAFETY("safety.resolve_by_owner")) return false;
  const auto state = node.view.state();
  const auto* record = state->bmd.find(bucket);
  return record != nullptr && api::was_ever_coded(record->props);
}

Task<Status> give_pending(TargetNode& node, VersionInFlight outbound, std::string id) {
  mark_pending(outbound.attribute.record, node.id);
  co_return co_await give_to(node, outbound, std::move(id));
}

Task<Status> replicas_have_room(TargetNode& node, ObjectName name, const io::ObjectRecord& record) {
  const auto state = node.owned.state();
  auto others =
      without(replicas_of(*state->map, name.uname, replica_count_of(node, name.bucket)), {node.id});
  co_return co_await check_room(node, name, record.generation, record.file_bytes(),
                                std::move(others));
}

Task<Result<bool>> replicate(TargetNode& node, const ObjectName& name,
                             const OwnedNames::Write& write, cluster::Durability durability,
                             const VersionInFlight& outbound) {
  const bool one_tenure = forward_by_owner(node, name.bucket);
  VersionInFlight pending = outbound;
  mark_pending(pending.attribute.record, node.id);
  const auto patience = std::chrono::steady_clock::now() + kReplicasMax;
  std::set<std::string> have{node.id};
  Error last{Errc::unavailable, "former replicas of the name have not heard of the newest map yet"};
  while (true) {
    const auto state = one_tenure ? write.tenure() : node.owned.state();
    if (state == nullptr)
      co_return fail(Errc::unavailable,
                     "{} has had another owner meanwhile: the outcome is unknown", name.object);
    const cluster::ReplicaCount count = replica_count_of(node, name.bucket);
    const std::size_t wanted = count.at(state->map->version);
    const auto replicas = replicas_of(*state->map, name.uname, count);
    if (replicas.empty() || replicas.front() != node.id)
      co_return fail(Errc::unavailable, "{} has just got another owner: the outcome is unknown",
                     name.object);
    const std::size_t required =
        durability == cluster::Durability::strict ? wanted : copies_required(wanted);
    // A replica may have copies on several of its drives.
    const std::size_t copies = replicas.size() * std::max<std::size_t>(1, name.copies);
    if (copies < required)
      co_return fail(Errc::unavailable,
                     "object {} is to have {} copies, a write needs {} of them and there are "
                     "targets for {}",
                     name.object, wanted, required, copies);
    std::vector<Task<Status>> gifts;
    const auto lacking = without(replicas, have);
    if (have.size() == 1) CO_TRY_OK(co_await find_room(node, name, pending, lacking));
    gifts.reserve(lacking.size());
    for (const std::string& id : lacking)
      gifts.push_back(give_while_replica(node, pending, name, id));
    const auto given = co_await gather(std::move(gifts));
    bool all = true;
    for (std::size_t i = 0; i < given.size(); ++i) {
      if (given[i]) {
        have.insert(lacking[i]);
      } else {
        all = false;
        last = given[i].error();
        // Waiting makes no room.
        if (last.code == Errc::no_space) co_return fail(last);
        if (last.code == kDriveLags) co_return fail(Errc::unavailable, "{}", last.message);
      }
    }
    // The version can no longer be read here.
    if (!all && pending.file != nullptr && !pending.file->drive().usable())
      co_return fail(Errc::unavailable, "{}", last.message);
    const auto now = node.owned.state();
    if (all && now->map->version == state->map->version &&
        former_replicas_know(*now, name.uname, count))
      co_return copies >= wanted;
    if (std::chrono::steady_clock::now() >= patience)
      co_return fail(Errc::unavailable, "not all replicas of {} have the new version: {}",
                     name.object, last.message);
    co_await pause(kNodeCopiesLookAgain);
  }
}

namespace {

Task<Status> node_copies_tell(TargetNode& node, const ObjectName& name, Generation generation,
                              std::string id) {
  const auto state = node.view.state();
  const cluster::Node* replica = state->map.find(id);
  if (replica == nullptr) co_return Status();
  CO_TRY(http::Url address, http::parse_url(replica->internal_url));
  api::Query query;
  query.set("bucket", std::to_string(raw(name.bucket)));
  query.set("object", name.object);
  query.set("generation", generation_text(generation));
  auto request =
      signed_call(node, http::Method::post, std::string(kCompletePath) + "?" + query.encode());
  const auto answer =
      co_await node.client.call(std::move(address), std::move(request), kNodeCopiesTellLimits);
  if (!answer || answer->status != 200)
    node_copies_log().info("replica not told target={} object={} err={}", id, name.object,
                           answer ? answer->body : answer.error().message);
  co_return Status();
}

}  // namespace

Task<Status> all_have(TargetNode& node, const ObjectName& name, Generation generation) {
  co_return co_await clear_mark(node, name, generation);
}

Task<void> confirm_replicas(TargetNode& node, ObjectName name, Generation generation) {
  const auto map = node.owned.state()->map;
  std::vector<Task<Status>> calls;
  for (const std::string& id :
       without(replicas_of(*map, name.uname, replica_count_of(node, name.bucket)), {node.id}))
    calls.push_back(node_copies_tell(node, name, generation, id));
  co_await gather(std::move(calls));
}

Task<Status> hear_complete(TargetNode& node, http::Request& request) {
  const auto& query = request.query();
  const auto bucket = parse_u64(query.get("bucket"));
  const auto generation = parse_generation(query.get("generation"));
  const std::string object(query.get("object"));
  if (!bucket || !generation || object.empty())
    co_return fail(Errc::invalid_argument, "complete: bucket, object and generation are required");
  const auto state = node.view.state();
  const auto* record = state->bmd.find(BucketId(*bucket));
  if (record == nullptr) co_return fail(Errc::bucket_not_found, "there is no such bucket");
  CO_TRY_OK(co_await clear_mark(node, name_in(*record, object), *generation));
  co_return co_await request.exchange.respond(http::Response(200));
}

Status is_authoritative_for_copies(const TargetNode& node) {
  if (node.owned.drive_set_is_known()) return {};
  return fail(Errc::unavailable, "drives of this target were changed just now; try again");
}

namespace {

Error changed_too_often(const ObjectName& name) {
  return {Errc::unavailable,
          fmt::format("object {} is being changed again and again", name.object)};
}

/// Result of one look at a name on several nodes.
struct Round {
  /// Records that were here, newest first, and all replicas had; nothing when that is not known
  /// yet.
  std::optional<std::vector<Located>> complete;
  bool looked_only = false;  ///< there was no work: so this is the state here now
};

Task<Result<Round>> resolve_once(TargetNode& node, const ObjectName& name) {
  CO_TRY(auto found, co_await find_here(node, name));
  if (found.empty() || pending_by(found.front().record).empty())
    co_return Round{std::move(found), true};
  const Generation generation = found.front().record.generation;
  const std::string writer(pending_by(found.front().record));
  const WriterStatus status = co_await ask_writer(node, name, writer, generation);
  if (status == WriterStatus::unknown)
    co_return fail(Errc::unavailable,
                   "target t[{}] does not say whether all replicas of {} have its newest version",
                   writer, name.object);
  if (status != WriterStatus::all_have_it && forward_by_owner(node, name.bucket)) {
    CO_TRY_OK(status == WriterStatus::has_newer
                  ? co_await fetch_newer(node, name, writer)
                  : co_await bring_forward(node, name, found.front()));
    co_return Round{};
  }
  if (status == WriterStatus::gave_up) {
    CO_TRY_OK(co_await send_ours(node, name, found.front()));
    node_copies_log().info("version given to all replicas object={} writer={}", name.object,
                           writer);
  }
  CO_TRY_OK(co_await clear_mark(node, name, generation));
  if (status == WriterStatus::gave_up) co_await confirm_replicas(node, name, generation);
  if (status == WriterStatus::has_newer) co_return Round{};
  for (Located& each : found) mark_complete(each.record);
  co_return Round{std::move(found)};
}

}  // namespace

Task<Status> resolve_copies(TargetNode& node, ObjectName name) {
  if (!replica_count_of(node, name.bucket).many()) co_return Status();
  CO_TRY_OK(is_authoritative_for_copies(node));
  const auto until = std::chrono::steady_clock::now() + kResolveMax;
  do {
    CO_TRY(const Round round, co_await resolve_once(node, name));
    if (round.looked_only) co_return Status();
  } while (std::chrono::steady_clock::now() < until);
  co_return fail(changed_too_often(name));
}

Task<Result<std::vector<Located>>> complete_records(TargetNode& node, ObjectName name) {
  const auto until = std::chrono::steady_clock::now() + kResolveMax;
  while (true) {
    auto round = co_await resolve_once(node, name);
    if (round && round->complete) co_return std::move(*round->complete);
    if (!round && round.error().code != Errc::unavailable) co_return fail(round.error());
    if (std::chrono::steady_clock::now() >= until)
      co_return fail(round ? changed_too_often(name) : round.error());
    co_await pause(kNodeCopiesLookAgain);
  }
}

namespace {

/// True if all replicas have what is here: what was opened, or else what is here instead.
Task<Result<bool>> is_complete(TargetNode& node, const ObjectName& name, const OpenObject* object) {
  // NOLINTNEXTLINE(bugprone-standalone-empty): co_return uses it
  if (object != nullptr) co_return pending_by(object->record()).empty();
  if (!SAFETY("safety.absence_complete")) co_return true;
  CO_TRY(const auto found, co_await find_here(node, name));
  co_return found.empty() || pending_by(found.front().record).empty();
}

}  // namespace

Task<Result<std::shared_ptr<OpenObject>>> open_complete(TargetNode& node, const ObjectName& name) {
  if (!replica_count_of(node, name.bucket).many()) co_return co_await node.store.open_object(name);
  CO_TRY_OK(is_authoritative_for_copies(node));
  const auto until = std::chrono::steady_clock::now() + kResolveMax;
  do {
    CO_TRY_OK(co_await resolve_once(node, name));
    // The store answers for a name that has copies on drives, also that it cannot know.
    if (name.copies == 0 && !has_full_view(node, name))
      co_return fail(Errc::unavailable, "object {} lives on a drive that is away", name.object);
    CO_TRY(auto object, co_await node.store.open_object(name));
    CO_TRY(const bool complete, co_await is_complete(node, name, object.get()));
    if (complete) co_return std::move(object);
  } while (std::chrono::steady_clock::now() < until);
  co_return fail(changed_too_often(name));
}

}  // namespace tarn::target
