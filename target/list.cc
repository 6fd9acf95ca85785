// One target's part of a LIST: its drives' indexes, merged. The proxy merges the targets.

#include <nlohmann/json.hpp>

#include "common/base/encoding.h"
#include "target/node.h"

namespace tarn::target {
namespace {

constexpr std::uint64_t kLimitMax = 10'000;

}  // namespace

Task<Status> list_objects(TargetNode& node, http::Request& request) {
  const auto& query = request.query();
  const auto bucket = parse_u64(query.get("bucket"));
  const auto limit = parse_u64(query.get("limit"));
  const auto bmd_version = parse_u64(query.get("bmd"));
  if (!bucket || !limit || *limit == 0 || *limit > kLimitMax || !bmd_version)
    co_return fail(Errc::invalid_argument, "list: bucket, bmd and limit (1 to {}) are required",
                   kLimitMax);
  CO_TRY_OK(co_await node.view.at_least(0, *bmd_version));
  CO_TRY(const auto page,
         co_await node.store.list(BucketId(*bucket), std::string(query.get("prefix")),
                                  std::string(query.get("after")), *limit,
                                  query.get("delimiter") == "/"));
  auto entries = nlohmann::json::array();
  for (const auto& entry : page.entries) {
    if (entry.name.ends_with('/')) {
      entries.push_back({{"n", entry.name}});
      continue;
    }
    entries.push_back({{"n", entry.name},
                       {"s", entry.record.size},
                       {"cs", hex64(entry.record.xxh64)},
                       {"v", std::to_string(entry.record.version)},
                       {"a", entry.record.modified_ns},
                       {"t", "t[" + node.id + "]"}});
  }
  const auto bytes =
      nlohmann::json::to_msgpack({{"entries", std::move(entries)}, {"more", page.more}});
  http::Response response(200, "application/msgpack", std::string(bytes.begin(), bytes.end()));
  co_return co_await request.exchange.respond(std::move(response));
}

}  // namespace tarn::target
