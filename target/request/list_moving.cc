// Reports the records of a target while names move between targets.

#include "target/request/list_moving.h"

#include <algorithm>
#include <map>

#include <nlohmann/json.hpp>

#include "common/api/mirror_props.h"
#include "common/base/encoding.h"
#include "common/base/fail_point.h"
#include "common/base/pause.h"
#include "target/replica/node_copies.h"
#include "target/replica/uncounted_copies.h"
#include "target/replica/uncounted_drives.h"
#include "target/request/list_page.h"

namespace tarn::target {
namespace {

using nlohmann::json;
using namespace std::chrono_literals;

constexpr std::uint64_t kListMovingLimitMax = 10'000;
constexpr auto kListMovingQuiescentEvery = 10ms;
/// Above the time for which a write waits for a replica that has died.
constexpr auto kListMovingQuiescentMax = 10s;
constexpr auto kLeaseMax = 1s;
/// Records that one visit to a drive's thread looks at, so that a walk keeps no thread for long.
constexpr std::size_t kListMovingSlice = 50'000;

struct ListMovingFound {
  io::ObjectRecord record;
  const Drive* drive = nullptr;
  std::uint32_t copies = 1;  ///< drives that hold this version, not known to be bad
};
using Records = std::map<std::string, ListMovingFound, std::less<>>;

/// Selection of a walk: the records of names that are ours, or those of names that are not.
struct Wanted {
  std::shared_ptr<const cluster::ClusterState> state;
  const cluster::BucketRecord* bucket = nullptr;  ///< within state
  std::string self;
  std::string prefix;
  bool own = false;
  bool all = false;  ///< both
  std::size_t limit = 0;

  [[nodiscard]] bool takes(std::string_view name) const { return all || is_ours(name) == own; }
  [[nodiscard]] bool is_ours(std::string_view name) const {
    const auto digest = cluster::placement_digest(bucket->placement_name(name));
    return cluster::writer_of(*state->ownership->map, digest) == self;
  }
};

/// Collects up to `limit` records of one drive after `after`. Returns the last name that was looked
/// at, when there are more after it.
Task<Result<std::optional<std::string>>> collect(Drive& drive, const Wanted& wanted,
                                                 std::string after, const UncountedCopies& bad,
                                                 Records& into) {
  std::size_t taken = 0;
  for (bool more = true; more;) {
    more = false;
    std::size_t seen = 0;
    const auto visit = [&](std::string_view name, const io::ObjectRecord& record) -> Index::Step {
      after = std::string(name);
      if (wanted.takes(name)) {
        ++taken;
        const std::uint32_t copies = bad.contains(drive, record) ? 0 : 1;
        const auto [at, is_new] = into.try_emplace(after, ListMovingFound{record, &drive, copies});
        if (!is_new && at->second.record.generation < record.generation)
          at->second = {record, &drive, copies};
        else if (!is_new && at->second.record.generation == record.generation)
          at->second.copies += copies;
      }
      more = ++seen == kListMovingSlice || taken == wanted.limit;
      return {.stop = more, .skip_to = {}};
    };
    const std::string from = after;
    CO_TRY_OK(co_await drive.walk(wanted.bucket->id, wanted.prefix, from, visit, TurnFor::client));
    if (more && taken == wanted.limit) co_return std::optional(after);
  }
  co_return std::optional<std::string>();
}

/// Waits until nothing of a name that is another's is on its way to a drive.
Task<Status> wait_quiescent(TargetNode& node) {
  const auto patience = std::chrono::steady_clock::now() + kListMovingQuiescentMax;
  while (!node.owned.others_are_quiescent()) {
    if (std::chrono::steady_clock::now() >= patience)
      co_return fail(Errc::unavailable, "writes of names that moved away are still under way");
    co_await pause(kListMovingQuiescentEvery);
  }
  co_return Status();
}

/// One that has just joined owns names some moments before its lease counts.
Task<Status> wait_for_lease(TargetNode& node) {
  const auto patience = std::chrono::steady_clock::now() + kLeaseMax;
  while (node.membership.lease_now() == 0) {
    if (std::chrono::steady_clock::now() >= patience)
      co_return fail(Errc::unavailable, "this target has no lease now");
    co_await pause(kListMovingQuiescentEvery);
  }
  co_return Status();
}

/// In place of what not all replicas may have, what they had a moment ago.
Task<Status> resolve_all(TargetNode& node, const cluster::BucketRecord& bucket,
                         const UncountedCopies& bad, Records& records) {
  for (auto at = records.begin(); at != records.end();) {
    ListMovingFound& found = at->second;
    if (!pending_by(found.record).empty()) {
      CO_TRY(auto complete, co_await complete_records(node, name_in(bucket, at->first)));
      if (complete.empty()) {
        at = records.erase(at);
        continue;
      }
      Located& newest = complete.front();
      const std::uint32_t copies = bad.contains(*newest.drive, newest.record) ? 0 : 1;
      found = {std::move(newest.record), newest.drive, copies};
    }
    ++at;
  }
  co_return Status();
}

json packed(const ListPlan& plan, const std::string& name, const ListMovingFound& found) {
  const auto& g = found.record.generation;
  std::vector<std::uint8_t> entry;
  if (found.record.kind == io::ObjectRecord::Kind::object) {
    EntryPacker packer(plan, location_text(plan.node, *found.drive));
    packer.add(name, found.record, found.copies);
    const auto page = packer.take(false);
    const std::string_view bytes = page.entries.front().bytes;
    entry.assign(bytes.begin(), bytes.end());
  }
  return json::array({name, json::array({g.map_version, g.incarnation, g.counter}),
                      json::binary(std::move(entry)), found.copies, found.record.size});
}

struct Asked {
  Wanted wanted;
  ListPlan plan;
  std::string after;
  std::uint64_t map_version = 0;
  std::uint64_t bmd_version = 0;
  bool counts = false;  ///< names on drives that are away may be missing
};

Result<Asked> parse(const TargetNode& node, const api::Query& query) {
  const auto bucket = parse_u64(query.get("bucket"));
  const auto limit = parse_u64(query.get("limit"));
  const auto bmd_version = parse_u64(query.get("bmd"));
  const auto map_version = parse_u64(query.get("map"));
  if (!bucket || !limit || *limit == 0 || *limit > kListMovingLimitMax || !bmd_version ||
      !map_version)
    return fail(Errc::invalid_argument,
                "list-moving: bucket, bmd, map and limit (1 to {}) are required",
                kListMovingLimitMax);
  Asked out;
  out.map_version = *map_version;
  out.bmd_version = *bmd_version;
  out.after = query.get("after");
  out.wanted.self = node.id;
  out.wanted.prefix = query.get("prefix");
  out.wanted.own = query.get("own") == "1";
  out.wanted.all = query.get("own") == "all";
  out.wanted.limit = *limit;
  out.counts = out.wanted.all && query.get("away") == "count";
  out.plan.bucket.id = BucketId(*bucket);
  TRY(out.plan.fields, api::parse_list_fields(query.get("props")));
  TRY(out.plan.time_format, api::parse_time_format(query.get("time_format")));
  out.plan.node = node.id;
  return out;
}

bool acts_on(TargetNode& node, std::uint64_t map_version) {
  return node.owned.state()->map->version == map_version;
}

}  // namespace

Task<Status> list_moving(TargetNode& node, http::Request& request) {
  CO_TRY(Asked asked, parse(node, request.query()));
  CO_TRY(asked.wanted.state, co_await node.view.at_least(asked.map_version, asked.bmd_version));
  Wanted& wanted = asked.wanted;
  wanted.bucket = wanted.state->bmd.find(asked.plan.bucket.id);
  if (wanted.bucket == nullptr) co_return fail(Errc::bucket_not_found, "there is no such bucket");
  const std::uint8_t copies = api::copies_of(wanted.bucket->props);
  const auto lists_all = [&]() -> Status {
    if (asked.counts) return {};
    return node.store.lists_all(on_drives(wanted.bucket->id, wanted.bucket));
  };
  CO_TRY_OK(lists_all());
  api::Uncounted uncounted = uncounted_here(node, wanted.bucket->id, copies);
  if (wanted.bucket->replica_count().many()) CO_TRY_OK(is_authoritative_for_copies(node));
  if (wanted.own && request.query().get("fresh") == "1") CO_TRY_OK(co_await wait_for_lease(node));
  bool same_map =
      wanted.state->map.version == asked.map_version && acts_on(node, asked.map_version);
  UncountedCopies bad;
  if (asked.counts) {
    CO_TRY(bad, UncountedCopies::of(node, *wanted.bucket));
  }
  Records records;
  std::optional<std::string> bound;  // beyond it some drive has not listed all yet
  if (same_map) {
    if (!wanted.own) CO_TRY_OK(co_await wait_quiescent(node));
    for (const auto& drive : node.store.drives()) {
      if (copies > 1 && !drive->usable()) continue;  // other drives have copies of it
      if (asked.counts && !drive->in_service()) continue;
      CO_TRY_OK(drive->not_overloaded());
      CO_TRY(const auto last, co_await collect(*drive, wanted, asked.after, bad, records));
      if (last && (!bound || *last < *bound)) bound = last;
    }
    CO_TRY_OK(lists_all());  // drives may have gone meanwhile
    uncounted.take(uncounted_here(node, wanted.bucket->id, copies));
    CO_TRY_OK(co_await resolve_all(node, *wanted.bucket, bad, records));
    CO_FAIL_POINT("list.before_answer");
    same_map = acts_on(node, asked.map_version);
  }
  if (!same_map) {
    http::Response other_map(421, http::kText, "this target acts on a newer map\n");
    co_return co_await request.exchange.respond(std::move(other_map));
  }
  json list = json::array();
  for (auto& [name, found] : records) {
    if (bound && name > *bound) break;
    // A second copy here is about to go, if the name lies on one drive of each target.
    if (asked.counts && copies == 0) found.copies = std::min(found.copies, 1U);
    list.push_back(packed(asked.plan, name, found));
    if (asked.counts) list.back().push_back(wanted.is_ours(name));
  }
  const auto bytes = json::to_msgpack({{"more", bound.has_value()},
                                       {"last", bound.value_or("")},
                                       {"records", std::move(list)},
                                       {"uncounted", uncounted}});
  http::Response response(200, "application/msgpack", std::string(bytes.begin(), bytes.end()));
  co_return co_await request.exchange.respond(std::move(response));
}

Task<Result<bool>> holds_nothing(ObjectStore& store,
                                 std::shared_ptr<const cluster::ClusterState> state) {
  if (!store.missing().empty()) co_return false;
  for (const auto& [name, bucket] : state->bmd.buckets) {
    for (const auto& drive : store.drives()) {
      bool found = false;
      const auto visit = [&](std::string_view, const io::ObjectRecord&) -> Index::Step {
        found = true;
        return {.stop = true, .skip_to = {}};
      };
      CO_TRY_OK(co_await drive->walk(bucket.id, "", "", visit));
      if (found) co_return false;
    }
  }
  CO_TRY(const bool slices, co_await store.slices().any());
  co_return !slices;
}

}  // namespace tarn::target
