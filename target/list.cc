// One target's part of a LIST: its drives' indexes, merged. The proxy merges the targets.

#include "common/api/mirror_props.h"
#include "common/base/encoding.h"
#include "target/list_page.h"
#include "target/node.h"
#include "target/node_copies.h"

namespace tarn::target {
namespace {

constexpr std::uint64_t kLimitMax = 10'000;

}  // namespace

Task<Status> list_objects(TargetNode& node, http::Request& request) {
  const auto& query = request.query();
  const auto bucket = parse_u64(query.get("bucket"));
  const auto limit = parse_u64(query.get("limit"));
  const auto bmd_version = parse_u64(query.get("bmd"));
  const auto map_version = parse_u64(query.get("map"));
  if (!bucket || !limit || *limit == 0 || *limit > kLimitMax || !bmd_version || !map_version)
    co_return fail(Errc::invalid_argument,
                   "list: bucket, bmd, map and limit (1 to {}) are required", kLimitMax);
  ListPlan plan;
  plan.bucket = BucketId(*bucket);
  plan.prefix = query.get("prefix");
  plan.by_directory = query.get("delimiter") == "/";
  CO_TRY(plan.fields, api::parse_list_fields(query.get("props")));
  CO_TRY(plan.time_format, api::parse_time_format(query.get("time_format")));
  plan.node = node.id;
  CO_TRY(const auto state, co_await node.view.at_least(*map_version, *bmd_version));
  if (query.get("fresh") == "1" && !node.membership.lease().valid())
    co_return fail(Errc::unavailable, "this target has no lease now");
  const auto* record = state->bmd.find(plan.bucket);
  plan.shows = names_to_show(node, state, plan.bucket);
  plan.spread = record != nullptr && api::copies_of(record->props) > 0;
  CO_TRY(const auto page,
         co_await list_page(node.store, std::move(plan), std::string(query.get("after")), *limit));
  // By a newer map names may have moved away from here, to where the caller does not look.
  if (node.owned.state()->map->version != *map_version) {
    http::Response other_map(421, http::kText, "this target acts on a newer map\n");
    co_return co_await request.exchange.respond(std::move(other_map));
  }
  http::Response response(200, "application/msgpack", api::encode_page(page.entries, page.more));
  co_return co_await request.exchange.respond(std::move(response));
}

}  // namespace tarn::target
