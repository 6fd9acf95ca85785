// The owner's part in evictions from drives of any target, and the calls for it.

#include "target/upstream/eviction_owner.h"

#include <algorithm>
#include <map>
#include <utility>

#include <nlohmann/json.hpp>

#include "common/api/upstream_props.h"
#include "common/base/fail_point.h"
#include "common/base/read_json.h"
#include "target/coded/put_tombstone.h"
#include "target/coded/slice_messages.h"
#include "target/node/node_call.h"
#include "target/replica/away_drive.h"
#include "target/replica/newest.h"

namespace tarn::target {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;

constexpr const char* kLastReadsPath = "/v1/internal/evict/last-reads";
constexpr const char* kEvictVersionPath = "/v1/internal/evict/version";
constexpr const char* kMessagePack = "application/msgpack";
constexpr std::size_t kEvictionBodyMax = 4U << 20U;
constexpr http::CallLimits kLastReadsLimits{.connect = 1s, .total = 10s};
/// A tombstone is synced on several nodes.
constexpr http::CallLimits kEvictVersionLimits{.connect = 1s, .total = 30s};

std::string packed(const json& value) {
  std::string out;
  json::to_msgpack(value, out);
  return out;
}

std::string owner_of(const TargetNode& node, const cluster::BucketRecord& bucket,
                     const std::string& name) {
  const auto state = node.view.state();
  const auto digest = cluster::placement_digest(name_in(bucket, name).uname);
  return cluster::writer_of(*state->ownership->map, digest);
}

/// Last read on all drives that have the newest version; `here` is newest first.
std::uint32_t last_read_of(const std::vector<Located>& here, const ObjectName& name) {
  std::uint32_t last = 0;
  for (const Located& each : here) {
    if (each.record.generation != here.front().record.generation) break;
    last = std::max(last, each.drive->access_times().last(name.bucket, name.object));
  }
  return last;
}

Task<std::uint32_t> last_read_here(TargetNode& node, ObjectName name) {
  const auto here = co_await find_here(node, name);
  if (!here || here->empty()) co_return 0;
  if (here->front().record.kind != io::ObjectRecord::Kind::object) co_return 0;
  co_return last_read_of(*here, name);
}

bool is_of(const Evictable& file, const io::ObjectRecord& record) {
  if (!file.slice) return record.generation == file.generation;
  return record.coding && record.coding->set == file.slice->set;
}

/// As an eviction by name does (cold_reads.cc).
Task<Result<std::optional<Generation>>> evict_here(TargetNode& node, ObjectName name,
                                                   const Evictable& file) {
  const std::optional<Generation> stays;
  // A writer may wait for the very room that this is to make, with the lock in its hand.
  if (node.store.locks().is_held(name.key()) || !node.owned.is_quiescent(name.uname))
    co_return stays;
  CO_TRY(const ObjectRequest wanted, request_of(node, name));
  OwnedNames::Write write;
  if (node.owned.begin(name.uname, write) != OwnedNames::Verdict::yes) co_return stays;
  CO_FAIL_POINT("evict.before_delete");
  const auto held = co_await node.store.locks().acquire(name.key());
  CO_TRY(Newest newest, co_await find_newest(node, wanted));
  if (!newest.exists() || newest.holder != nullptr) co_return stays;
  const bool is_as_chosen =
      is_of(file, *newest.record) && last_read_of(newest.here, name) == file.last_read;
  if (!is_as_chosen && SAFETY("safety.evict_compare")) co_return stays;
  CO_TRY(const Generation tombstone,
         co_await put_tombstone(node, wanted, std::move(newest.here), write, {}));
  co_return tombstone;
}

/// Asks another target, by the state of the cluster that this one knows.
Task<Result<json>> call_owner(TargetNode& node, std::string owner, const char* path, json question,
                              http::CallLimits limits) {
  const auto state = node.view.state();
  const AsOf now{state->map.version, state->bmd.version};
  auto request =
      signed_call(node, http::Method::post, std::string(path) + "?" + to_query(now).encode());
  request.body = packed(question);
  CO_TRY(const auto answer, co_await ask_target(node, owner, std::move(request), limits));
  if (answer.status != 200) co_return fail(error_of_answer(owner, answer.status, answer.body));
  json out = json::from_msgpack(answer.body, true, false);
  if (out.is_discarded())
    co_return fail(Errc::disconnected, "target t[{}] answers with no MessagePack", owner);
  co_return out;
}

json json_of(const Generation& generation) {
  return json::array({generation.map_version, generation.incarnation, generation.counter});
}

Generation generation_in(const json& in) { return {in.at(0), in.at(1), in.at(2)}; }

/// The question of another target, and the bucket that it is about.
struct Question {
  json body;
  cluster::BucketRecord bucket;
};
Task<Result<Question>> read_question(TargetNode& node, http::Request& request) {
  CO_TRY(const AsOf when, as_of(request.query()));
  CO_TRY(const std::string body, co_await request.exchange.read_all(kEvictionBodyMax));
  CO_TRY(const auto state, co_await node.view.at_least(when.map_version, when.bmd_version));
  Question out{json::from_msgpack(body, true, false), {}};
  if (!out.body.is_object() || !out.body.contains("bucket") || !out.body["bucket"].is_number())
    co_return fail(Errc::invalid_argument, "a bucket's id is missing");
  const auto* bucket = state->bmd.find(BucketId{out.body["bucket"].get<std::uint64_t>()});
  if (bucket == nullptr) co_return fail(Errc::bucket_not_found, "the bucket is gone");
  if (!api::has_upstream(bucket->name))
    co_return fail(Errc::invalid_argument, "bucket {} has no upstream: its objects stay",
                   bucket->name.display());
  out.bucket = *bucket;
  co_return out;
}

Task<Status> answer_last_reads(TargetNode& node, http::Request& request) {
  CO_TRY(const Question asked, co_await read_question(node, request));
  CO_TRY(const auto names, read_json(Errc::invalid_argument, "names of objects", [&] {
           return asked.body.at("names").get<std::vector<std::string>>();
         }));
  std::vector<std::uint32_t> last;
  last.reserve(names.size());
  for (const std::string& name : names)
    last.push_back(co_await last_read_here(node, name_in(asked.bucket, name)));
  co_return co_await request.exchange.respond(http::Response(200, kMessagePack, packed(last)));
}

Result<Evictable> evictable_in(const Question& asked) {
  return read_json(Errc::invalid_argument, "a version to evict", [&]() -> Result<Evictable> {
    Evictable out;
    out.name = asked.body.at("name");
    out.last_read = asked.body.at("last_read");
    if (const auto set = asked.body.find("set"); set != asked.body.end())
      out.slice = SliceKey{asked.bucket.id, out.name, set->get<std::uint64_t>(), 0};
    else
      out.generation = generation_in(asked.body.at("generation"));
    return out;
  });
}

Task<Status> answer_evict_version(TargetNode& node, http::Request& request) {
  CO_TRY(const Question asked, co_await read_question(node, request));
  CO_TRY(const Evictable file, evictable_in(asked));
  CO_TRY(const auto tombstone, co_await evict_here(node, name_in(asked.bucket, file.name), file));
  const json answer{{"tombstone", tombstone ? json_of(*tombstone) : json()}};
  co_return co_await request.exchange.respond(http::Response(200, kMessagePack, packed(answer)));
}

/// Asks for the last reads of all these files, which have one owner.
Task<void> ask_last_reads_of(TargetNode& node, const cluster::BucketRecord& bucket,
                             const std::string& owner, const std::vector<Evictable*>& files) {
  if (owner == node.id) {
    for (Evictable* file : files)
      file->last_read = co_await last_read_here(node, name_in(bucket, file->name));
    co_return;
  }
  for (Evictable* file : files) file->last_read = 0;
  if (!node.view.state()->live.contains(owner)) co_return;
  std::vector<std::string> names;
  names.reserve(files.size());
  for (const Evictable* file : files) names.push_back(file->name);
  json question{{"bucket", raw(bucket.id)}, {"names", std::move(names)}};
  const auto answer =
      co_await call_owner(node, owner, kLastReadsPath, std::move(question), kLastReadsLimits);
  if (!answer || !answer->is_array() || answer->size() != files.size()) co_return;
  for (std::size_t i = 0; i < files.size(); ++i)
    if ((*answer)[i].is_number_unsigned()) files[i]->last_read = (*answer)[i];
}

}  // namespace

Task<void> ask_last_reads(TargetNode& node, const cluster::BucketRecord& bucket,
                          std::span<Evictable> files) {
  std::map<std::string, std::vector<Evictable*>> by_owner;
  for (Evictable& file : files) by_owner[owner_of(node, bucket, file.name)].push_back(&file);
  for (const auto& [owner, its] : by_owner) co_await ask_last_reads_of(node, bucket, owner, its);
}

Task<Result<std::optional<Generation>>> evict_at_owner(TargetNode& node,
                                                       const cluster::BucketRecord& bucket,
                                                       const Evictable& file) {
  const std::string owner = owner_of(node, bucket, file.name);
  if (owner == node.id) co_return co_await evict_here(node, name_in(bucket, file.name), file);
  json question{{"bucket", raw(bucket.id)}, {"name", file.name}, {"last_read", file.last_read}};
  if (file.slice)
    question["set"] = file.slice->set;
  else
    question["generation"] = json_of(file.generation);
  CO_TRY(const json answer, co_await call_owner(node, owner, kEvictVersionPath, std::move(question),
                                                kEvictVersionLimits));
  co_return read_json(Errc::disconnected, fmt::format("target t[{}] answers", owner),
                      [&]() -> std::optional<Generation> {
                        const json& tombstone = answer.at("tombstone");
                        if (tombstone.is_null()) return std::nullopt;
                        return generation_in(tombstone);
                      });
}

std::vector<http::Route> eviction_owner_routes(TargetNode& node) {
  return {{"POST", "/v1/internal/evict/last-reads", "when objects of this target were read last",
           [&node](http::Request& request) { return answer_last_reads(node, request); }},
          {"POST", "/v1/internal/evict/version", "evict this version of an object of this target",
           [&node](http::Request& request) { return answer_evict_version(node, request); }}};
}

}  // namespace tarn::target
