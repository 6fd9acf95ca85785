#include "target/erase_all.h"

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "common/obs/log.h"

namespace tarn::target {
namespace {

constexpr std::size_t kPageNames = 1'000;

Task<Result<std::vector<std::string>>> names_on(Drive& drive, BucketId bucket) {
  std::vector<std::string> names;
  const auto visit = [&names](std::string_view name, const io::ObjectRecord&) -> Index::Step {
    names.emplace_back(name);
    return {.stop = names.size() == kPageNames, .skip_to = {}};
  };
  CO_TRY_OK(co_await drive.walk(bucket, "", "", visit));
  co_return names;
}

Task<Status> erase_name(TargetNode& node, ObjectName name) {
  const auto held = co_await node.store.locks().acquire(name.key());
  CO_TRY(auto present, co_await node.store.find_all(name));
  // Looked at behind the records: whoever joins meanwhile has found them and was refused.
  if (!node.membership.is_outside())
    co_return fail(Errc::conflict, "node {} is in the cluster again", node.id);
  CO_TRY_OK(co_await node.store.forget(name, std::move(present)));
  co_return Status();
}

}  // namespace

Task<Status> erase_all(TargetNode& node) {
  const auto state = node.view.state();
  std::uint64_t erased = 0;
  const auto drives = node.store.drives();
  for (const auto& [key, bucket] : state->bmd.buckets) {
    for (const auto& drive : drives) {
      while (true) {
        CO_TRY(const auto names, co_await names_on(*drive, bucket.id));
        if (names.empty()) break;
        for (const std::string& object : names) {
          ObjectName name{bucket.id, bucket.placement_name(object), object};
          CO_TRY_OK(co_await erase_name(node, std::move(name)));
          ++erased;
        }
      }
    }
  }
  obs::log("target").warn("erased names={}", erased);
  co_return Status();
}

Task<Status> tell_holdings(TargetNode& node, http::Request& request) {
  const auto state = node.view.state();
  std::uint64_t objects = 0;
  std::uint64_t bytes = 0;
  const auto drives = node.store.drives();
  for (const auto& [key, bucket] : state->bmd.buckets) {
    for (const auto& drive : drives) {
      const auto visit = [&](std::string_view, const io::ObjectRecord& record) -> Index::Step {
        if (record.kind == io::ObjectRecord::Kind::object) {
          ++objects;
          bytes += record.size;
        }
        return {};
      };
      CO_TRY_OK(co_await drive->walk(bucket.id, "", "", visit));
    }
  }
  const nlohmann::json out{{"objects", objects}, {"bytes", bytes}};
  co_return co_await request.exchange.respond(http::Response(200, http::kJson, out.dump()));
}

}  // namespace tarn::target
