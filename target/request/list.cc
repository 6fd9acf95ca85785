// One target's part of a LIST: its drives' indexes, merged. The proxy merges the targets.

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "common/api/mirror_props.h"
#include "common/base/encoding.h"
#include "common/base/fail_point.h"
#include "common/base/mutex.h"
#include "common/cluster/state/bucket_changes.h"
#include "target/replica/node_copies.h"
#include "target/request/handlers.h"
#include "target/request/list_page.h"

namespace tarn::target {
namespace {

constexpr std::uint64_t kListLimitMax = 10'000;
constexpr int kListAttemptsMax = 20;

/// Names that a page met whose newest version not all replicas have. Thread-safe.
class PendingNames {
 public:
  void add(std::string_view name) {
    const MutexLock lock(mutex_);
    names_.emplace(name);
  }
  [[nodiscard]] std::set<std::string> take() {
    const MutexLock lock(mutex_);
    return std::exchange(names_, {});
  }

 private:
  Mutex mutex_;
  std::set<std::string> names_ TARN_GUARDED_BY(mutex_);
};

/// A page that shows only versions that all replicas of the name have: instead of any other, the
/// version that they had a moment ago. The page is made anew until it meets no other such name.
Task<Result<api::MergedPage>> list_complete(TargetNode& node, const cluster::BucketRecord& bucket,
                                            ListPlan plan, std::string after, std::size_t limit) {
  CO_TRY_OK(is_authoritative_for_copies(node));
  std::map<std::string, std::optional<io::ObjectRecord>, std::less<>> complete;
  for (int attempt = 0; attempt < kListAttemptsMax; ++attempt) {
    PendingNames pending;
    plan.in_place_of = [&](std::string_view name,
                           const io::ObjectRecord& record) -> const io::ObjectRecord* {
      if (pending_by(record).empty()) return &record;
      const auto at = complete.find(name);
      if (at != complete.end()) return at->second ? &*at->second : nullptr;
      pending.add(name);
      return &record;
    };
    auto page = co_await list_page(node.store, plan, after, limit);
    const std::set<std::string> names = pending.take();
    if (!page || names.empty()) co_return page;
    for (const std::string& name : names) {
      CO_TRY(auto found, co_await complete_records(node, name_in(bucket, name)));
      complete[name].reset();
      if (!found.empty()) complete[name] = std::move(found.front().record);
    }
  }
  co_return fail(Errc::unavailable, "objects of bucket {} are being changed; try again",
                 bucket.name.display());
}

}  // namespace

Task<Status> list_objects(TargetNode& node, http::Request& request) {
  const auto& query = request.query();
  const auto bucket = parse_u64(query.get("bucket"));
  const auto limit = parse_u64(query.get("limit"));
  const auto bmd_version = parse_u64(query.get("bmd"));
  const auto map_version = parse_u64(query.get("map"));
  if (!bucket || !limit || *limit == 0 || *limit > kListLimitMax || !bmd_version || !map_version)
    co_return fail(Errc::invalid_argument,
                   "list: bucket, bmd, map and limit (1 to {}) are required", kListLimitMax);
  ListPlan plan;
  plan.bucket.id = BucketId(*bucket);
  plan.prefix = query.get("prefix");
  plan.by_directory = query.get("delimiter") == "/";
  CO_TRY(plan.fields, api::parse_list_fields(query.get("props")));
  CO_TRY(plan.time_format, api::parse_time_format(query.get("time_format")));
  plan.node = node.id;
  CO_TRY(const auto state, co_await node.view.at_least(*map_version, *bmd_version));
  if (query.get("fresh") == "1" && !node.membership.lease().valid())
    co_return fail(Errc::unavailable, "this target has no lease now");
  const auto* record = state->bmd.find(plan.bucket.id);
  if (record != nullptr && record->ending) co_return fail(cluster::being_destroyed(record->name));
  plan.shows = names_to_show(node, state, plan.bucket.id);
  plan.bucket = on_drives(plan.bucket.id, record);
  std::string after(query.get("after"));
  auto listing = record != nullptr && record->replica_count().many()
                     ? list_complete(node, *record, std::move(plan), std::move(after), *limit)
                     : list_page(node.store, std::move(plan), std::move(after), *limit);
  CO_TRY(const auto page, co_await std::move(listing));
  CO_FAIL_POINT("list.before_answer");
  // Names may have moved away from here by a newer map, to where the caller does not look.
  if (node.owned.state()->map->version != *map_version) {
    http::Response other_map(421, http::kText, "this target acts on a newer map\n");
    co_return co_await request.exchange.respond(std::move(other_map));
  }
  http::Response response(200, "application/msgpack", api::encode_page(page.entries, page.more));
  co_return co_await request.exchange.respond(std::move(response));
}

}  // namespace tarn::target
