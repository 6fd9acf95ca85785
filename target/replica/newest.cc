// Finds the newest version of a name, at its owner, while names move: the owner asks the replicas
// of past epochs. These answer only when they act on the same map and nothing of the name is on its
// way to their drives.

#include "target/replica/newest.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "common/base/encoding.h"
#include "common/base/gather.h"
#include "common/base/pause.h"
#include "common/base/read_json.h"
#include "target/node/node_call.h"
#include "target/replica/away_drive.h"
#include "target/replica/fetch_to_owner.h"
#include "target/replica/move_format.h"
#include "target/replica/node_copies.h"

namespace tarn::target {
namespace {

using nlohmann::json;
using namespace std::chrono_literals;

/// Time for which a name is looked at anew while one map follows another.
constexpr auto kNewestPatience = 10s;
constexpr auto kNewestRestEvery = 10ms;
constexpr auto kNewestRestMax = 2s;
constexpr http::CallLimits kLimits{.connect = 1s, .total = 4s};

Result<ReplicaAnswer> read_answer(const std::string& id, const std::string& body) {
  return read_json(Errc::corrupt, fmt::format("target t[{}]", id), [&]() -> Result<ReplicaAnswer> {
    const json in = json::parse(body);
    ReplicaAnswer out{id, {}, in.at("drives").get<std::vector<std::string>>()};
    const auto bytes = unhex(in.at("record").get<std::string>());
    if (!bytes) return fail(Errc::corrupt, "target t[{}]: a record that is no hex", id);
    if (!bytes->empty()) {
      TRY(out.record, io::decode_record(*bytes));
    }
    return out;
  });
}

void take_own(Newest& best) {
  for (const Located& each : best.here)
    if (!best.record || best.record->generation <= each.record.generation) {
      if (best.holder != nullptr || !best.record ||
          best.record->generation < each.record.generation)
        best.drives.clear();
      best.record = each.record;
      best.holder = nullptr;
      best.drives.push_back(each.drive->path());
    }
}

std::uint64_t map_version_of(const std::optional<io::ObjectRecord>& record) {
  return record ? record->generation.map_version : 0;
}

/// A drive that is away may hold something newer than no object. Of a mirrored name the drives have
/// been judged already.
Status check_absence(const TargetNode& node, const ObjectName& name, const Newest& found) {
  if (found.exists() || name.copies > 0) return {};
  return node.store.check_not_away(name);
}

/// No other target has for certain what a drive of ours has that is away.
Error only_here(const ObjectName& name) {
  return {Errc::unavailable,
          fmt::format("object {} lives on a drive that is away, and no other target is known to "
                      "have its newest version",
                      name.object)};
}

Status check_others_know(const ObjectName& name, const std::vector<cluster::ReadGroup>& groups) {
  const bool is_known =
      !groups.empty() && std::none_of(groups.begin(), groups.end(),
                                      [](const auto& group) { return group.all_needed; });
  if (is_known) return {};
  return fail(only_here(name));
}

/// The caller has tried to resolve it (node_copies.h), before it took the name's lock.
Status check_complete(const Newest& found) {
  if (!found.record || pending_by(*found.record).empty()) return {};
  return fail(Errc::unavailable,
              "the newest version is on its way to all of its replicas; try again");
}

/// The word of a group: the first that is heard, or the newest of all when each may have lost what
/// it had.
Task<Result<ReplicaAnswer>> ask_group(TargetNode& node,
                                      std::shared_ptr<const cluster::ClusterState> state,
                                      ObjectName name, cluster::ReadGroup group, Look look) {
  ReplicaAnswer newest;
  Error last{Errc::unavailable, "no target is left that may hold the newest version"};
  for (const std::string& id : group.replicas) {
    auto answer = co_await ask_replica(node, state, name, id, look);
    if (answer && !group.all_needed) co_return answer;
    if (!answer && group.all_needed) co_return answer;
    if (!answer)
      last = answer.error();
    else if (answer->record &&
             (!newest.record || newest.record->generation < answer->record->generation))
      newest = std::move(*answer);
  }
  if (group.all_needed) co_return newest;
  co_return fail(std::move(last));
}

/// One attempt; nothing when the map changed meanwhile.
Task<Result<std::optional<Newest>>> try_find(TargetNode& node, const ObjectRequest& wanted,
                                             Look look) {
  const Pending pending = look == Look::as_it_is ? Pending::show : Pending::refuse;
  Newest best;
  best.state = node.view.state();
  const cluster::Ownership& map = *best.state->ownership->map;
  const std::uint64_t digest = cluster::placement_digest(wanted.name.uname);
  const cluster::ReplicaCount count = replica_count_of(node, wanted.name.bucket);
  if (!map.current.is_replica(node.id, digest, count.at(map.version)))
    co_return fail(Errc::unavailable, "{} has just got another owner; try again", wanted.display());
  const ObjectName name = as_of_now(node, wanted.name);
  const bool sees = has_full_view(node, name);
  CO_TRY(best.here, co_await find_here(node, name));
  take_own(best);
  // Other replicas have as well what a drive that is away has: they are asked as if we had lost it.
  std::optional<cluster::Ownership> blind;
  if (!sees) blind = cluster::with_loss(map, node.id, 0);
  const cluster::Ownership& asked = blind ? *blind : map;
  const auto groups =
      cluster::readers_of(asked, node.id, digest, count, map_version_of(best.record));
  if (!sees) CO_TRY_OK(check_others_know(name, groups));
  if (groups.empty()) {
    if (!has_full_view(node, name)) co_return std::optional<Newest>();
    if (pending == Pending::refuse) CO_TRY_OK(check_complete(best));
    co_return std::optional(std::move(best));
  }

  std::vector<Task<Result<ReplicaAnswer>>> calls;
  calls.reserve(groups.size());
  for (const auto& group : groups) calls.push_back(ask_group(node, best.state, name, group, look));
  const auto answers = co_await gather(std::move(calls));
  for (const auto& answer : answers) {
    if (!answer || !answer->record) continue;
    if (best.record && best.record->generation >= answer->record->generation) continue;
    best.record = answer->record;
    best.holder = best.state->map.find(answer->id);
    best.drives = answer->drives;
  }
  // The name may have moved here while the other targets were asked: what they no longer had is
  // here now.
  CO_TRY(best.here, co_await find_here(node, name));
  take_own(best);
  if (node.view.state()->map.version != best.state->map.version ||
      has_full_view(node, name) != sees)
    co_return std::optional<Newest>();
  const auto still =
      cluster::readers_of(asked, node.id, digest, count, map_version_of(best.record));
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const bool needed = std::find(still.begin(), still.end(), groups[i]) != still.end();
    if (needed && !answers[i]) co_return fail(answers[i].error());
  }
  if (pending == Pending::refuse) CO_TRY_OK(check_complete(best));
  co_return std::optional(std::move(best));
}

Error on_its_way(const ObjectRequest& wanted, const Newest& newest) {
  return {Errc::unavailable, fmt::format("{} is still on target t[{}] and moves here; try again",
                                         wanted.display(), newest.holder->id)};
}

/// Returns what is here, if all replicas have it and it is as new as `enough`. The answer stays
/// true, whatever is under way: a name that is written again and again is never quiescent.
Task<Result<std::optional<Newest>>> find_enough(TargetNode& node, const ObjectName& name,
                                                const Generation& enough) {
  Newest own;
  CO_TRY(own.here, co_await find_here(node, name));
  take_own(own);
  const bool is_enough =
      own.record && own.record->generation >= enough && pending_by(*own.record).empty();
  if (!is_enough) co_return std::optional<Newest>();
  co_return std::optional(std::move(own));
}

/// The record that this target has, when it acts on `map_version` and knows it. Nothing: it acts on
/// a newer one.
Task<Result<std::optional<Newest>>> look_here(TargetNode& node, ObjectName name,
                                              std::uint64_t map_version, Look look,
                                              std::optional<Generation> enough) {
  const auto patience = std::chrono::steady_clock::now() + kNewestRestMax;
  while (std::chrono::steady_clock::now() < patience) {
    // Work that a crash left half done is finished before a caller sees it.
    if (name.copies > 0) CO_TRY_OK(co_await node.store.mirror().resolve(name));
    // The caller holds the lock that the owner would need, where it alone resolves.
    const bool must_be = look == Look::complete_now && forward_by_owner(node, name.bucket);
    if (look != Look::as_it_is && !must_be) CO_TRY_OK(co_await resolve_copies(node, name));
    if (enough) {
      CO_TRY(auto found, co_await find_enough(node, name, *enough));
      if (found) co_return std::move(found);
    }
    const bool sees = has_full_view(node, name);
    if (!sees && look != Look::as_it_is) co_return fail(only_here(name));
    if (node.owned.is_quiescent(name.uname)) {
      Newest own;
      CO_TRY(own.here, co_await find_here(node, name));
      if (has_full_view(node, name) != sees) continue;
      take_own(own);
      if (must_be) CO_TRY_OK(check_complete(own));
      if (sees) CO_TRY_OK(check_absence(node, name, own));
      if (node.owned.state()->map->version != map_version) co_return std::optional<Newest>();
      if (node.owned.is_quiescent(name.uname)) co_return std::optional(std::move(own));
    }
    co_await pause(kNewestRestEvery);
  }
  co_return fail(Errc::unavailable, "object {} is on its way to a drive", name.object);
}

}  // namespace

Task<Result<ReplicaAnswer>> ask_replica(TargetNode& node,
                                        std::shared_ptr<const cluster::ClusterState> state,
                                        ObjectName name, std::string id, Look look,
                                        std::optional<Generation> enough) {
  const cluster::Node* other = state->map.find(id);
  if (other == nullptr) co_return fail(Errc::unavailable, "target t[{}] is not in the map", id);
  api::Query query;
  query.set("bucket", std::to_string(raw(name.bucket)));
  query.set("object", name.object);
  query.set("uname", name.uname);
  query.set("copies", std::to_string(name.copies));
  query.set("map", std::to_string(state->map.version));
  if (look == Look::as_it_is) query.set("as_it_is", "1");
  if (look == Look::complete_now) query.set("settled_now", "1");
  if (enough) query.set("enough", generation_text(*enough));
  auto request =
      signed_call(node, http::Method::get, std::string(kLookUpPath) + "?" + query.encode());
  CO_TRY(http::Url address, http::parse_url(other->internal_url));
  auto answer = co_await node.client.call(std::move(address), std::move(request), kLimits);
  if (!answer)
    co_return fail(Errc::unavailable,
                   "target t[{}], which may hold the newest version of {}, does not answer: {}", id,
                   name.object, answer.error().message);
  // Learns the newer map that the target acts on: try_find() sees it and begins anew.
  if (answer->status == 421) CO_TRY_OK(co_await node.view.at_least(state->map.version + 1, 0));
  if (answer->status != 200)
    co_return fail(Errc::unavailable,
                   "target t[{}], which may hold the newest version of {}, cannot tell now ({})",
                   id, name.object, answer->status);
  co_return read_answer(id, answer->body);
}

bool is_newest(const cluster::ClusterState& state, const OpenObject* object) {
  const auto& past = state.map.past;
  return past.empty() ||
         (object != nullptr && object->record().generation.map_version > past.front().last);
}

namespace {

Task<Result<Newest>> find(TargetNode& node, const ObjectRequest& wanted, Look look) {
  const auto until = std::chrono::steady_clock::now() + kNewestPatience;
  while (std::chrono::steady_clock::now() < until) {
    CO_TRY(auto found, co_await try_find(node, wanted, look));
    if (found) {
      const ObjectName name = as_of_now(node, wanted.name);
      if (has_full_view(node, name)) CO_TRY_OK(check_absence(node, name, *found));
      co_return std::move(*found);
    }
    co_await pause(kNewestRestEvery);
  }
  co_return fail(Errc::unavailable, "the cluster map changes; try again");
}

/// Returns how the caller wants to be answered.
Look look_of(const api::Query& query) {
  if (query.get("as_it_is") == "1") return Look::as_it_is;
  return query.get("settled_now") == "1" ? Look::complete_now : Look::complete;
}

}  // namespace

Task<Result<Newest>> find_newest(TargetNode& node, const ObjectRequest& wanted, Pending pending) {
  return find(node, wanted, pending == Pending::show ? Look::as_it_is : Look::complete_now);
}

Task<Result<Newest>> find_complete(TargetNode& node, const ObjectRequest& wanted) {
  CO_TRY_OK(co_await resolve_copies(node, wanted.name));
  co_return co_await find(node, wanted, Look::complete);
}

Task<Result<Newest>> find_present(TargetNode& node, const ObjectRequest& wanted) {
  CO_TRY(auto newest, co_await find_newest(node, wanted));
  if (!newest.exists()) co_return fail(object_missing(wanted));
  if (newest.holder != nullptr) co_return fail(on_its_way(wanted, newest));
  co_return newest;
}

Task<Result<std::shared_ptr<OpenObject>>> open_newest(TargetNode& node,
                                                      const ObjectRequest& wanted) {
  CO_TRY(auto object, co_await open_complete(node, wanted.name));
  if (is_newest(*node.view.state(), object.get())) co_return std::move(object);
  CO_TRY(const auto newest, co_await fetch_to_owner(node, wanted));
  if (!newest.exists()) co_return std::shared_ptr<OpenObject>();
  co_return co_await open_complete(node, wanted.name);
}

Task<Status> look_up(TargetNode& node, http::Request& request) {
  const auto& query = request.query();
  const auto bucket = parse_u64(query.get("bucket"));
  const auto map_version = parse_u64(query.get("map"));
  const auto copies = parse_u64(query.get("copies"));
  ObjectName name;
  name.object = query.get("object");
  name.uname = query.get("uname");
  if (!bucket || !map_version || !copies || *copies > UINT8_MAX || name.object.empty() ||
      name.uname.empty())
    co_return fail(Errc::invalid_argument,
                   "look-up: bucket, object, uname, copies and map are required");
  name.bucket = BucketId(*bucket);
  CO_TRY_OK(co_await node.view.at_least(*map_version, 0));
  // Whichever of us knows the newer state of the bucket.
  name = as_of_now(node, std::move(name));
  name.copies = std::max(name.copies, static_cast<std::uint8_t>(*copies));
  CO_TRY(const auto own, co_await look_here(node, std::move(name), *map_version, look_of(query),
                                            parse_generation(query.get("enough"))));
  if (!own) {
    http::Response other_map(421, http::kText, "this target acts on a newer map\n");
    co_return co_await request.exchange.respond(std::move(other_map));
  }
  const json answer{{"record", own->record ? hex(io::encode(*own->record)) : ""},
                    {"drives", own->drives}};
  http::Response response(200, http::kJson, answer.dump());
  co_return co_await request.exchange.respond(std::move(response));
}

}  // namespace tarn::target
