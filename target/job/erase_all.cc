#include "target/job/erase_all.h"

#include <limits>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "common/obs/log.h"
#include "target/drive/record_pages.h"
#include "target/drive/slice_pages.h"

namespace tarn::target {
namespace {

Task<Result<std::vector<std::string>>> names_on(Drive& drive, BucketId bucket) {
  RecordPages<std::string> pages(drive, bucket,
                                 [](std::string_view name, const io::ObjectRecord&, auto& names) {
                                   names.emplace_back(name);
                                 });
  co_return co_await pages.next();
}

Task<Status> erase_name(TargetNode& node, ObjectName name) {
  const auto held = co_await node.store.locks().acquire(name.key());
  CO_TRY(auto present, co_await node.store.find_all(name));
  // Checked after the records: a node that joins meanwhile has found them and was refused.
  if (!node.membership.is_outside())
    co_return fail(Errc::conflict, "node {} is in the cluster again", node.id);
  CO_TRY_OK(co_await node.store.forget(name, std::move(present)));
  co_return Status();
}

Task<Result<std::vector<SliceKey>>> slices_on(Drive& drive, BucketId bucket) {
  SlicePages<SliceKey> pages(
      drive, bucket,
      [](const SliceKey& key, const io::ObjectRecord&, auto& keys) { keys.push_back(key); });
  co_return co_await pages.next();
}

Task<Status> erase_slice(TargetNode& node, Drive& drive, SliceKey key) {
  constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();
  if (!node.membership.is_outside())
    co_return fail(Errc::conflict, "node {} is in the cluster again", node.id);
  CO_TRY_OK(co_await node.store.slices().drop(key, {kMax, kMax, kMax}));
  // On a drive that is out of service it is left, and would be seen again for ever.
  if (drive.in_service()) co_return Status();
  co_return fail(Errc::unavailable, "drive {} is out of service", drive.path());
}

/// All that a drive has of a bucket; how many it were.
Task<Result<std::uint64_t>> erase_on(TargetNode& node, Drive& drive,
                                     const cluster::BucketRecord& bucket) {
  std::uint64_t erased = 0;
  while (true) {
    CO_TRY(const auto names, co_await names_on(drive, bucket.id));
    for (const std::string& object : names) {
      ObjectName name{bucket.id, bucket.placement_name(object), object};
      CO_TRY_OK(co_await erase_name(node, std::move(name)));
      ++erased;
    }
    CO_TRY(const auto slices, co_await slices_on(drive, bucket.id));
    for (const SliceKey& key : slices) {
      CO_TRY_OK(co_await erase_slice(node, drive, key));
      ++erased;
    }
    if (names.empty() && slices.empty()) co_return erased;
  }
}

}  // namespace

Task<Status> erase_all(TargetNode& node) {
  const auto state = node.view.state();
  std::uint64_t erased = 0;
  const auto drives = node.store.drives();
  for (const auto& [key, bucket] : state->bmd.buckets) {
    for (const auto& drive : drives) {
      CO_TRY(const std::uint64_t here, co_await erase_on(node, *drive, bucket));
      erased += here;
    }
  }
  obs::log("target").warn("erased names={}", erased);
  co_return Status();
}

Task<Status> tell_holdings(TargetNode& node, http::Request& request) {
  const auto state = node.view.state();
  std::uint64_t objects = 0;
  std::uint64_t slices = 0;
  std::uint64_t bytes = 0;  // of files
  const auto drives = node.store.drives();
  for (const auto& [key, bucket] : state->bmd.buckets) {
    for (const auto& drive : drives) {
      const auto visit = [&](std::string_view, const io::ObjectRecord& record) -> Index::Step {
        if (record.kind == io::ObjectRecord::Kind::object) {
          ++objects;
          bytes += record.file_bytes();
        }
        return {};
      };
      CO_TRY_OK(co_await drive->walk(bucket.id, "", "", visit));
      const auto visit_slice = [&](const SliceKey&, const io::ObjectRecord& record) {
        ++slices;
        bytes += record.file_bytes();
        return true;
      };
      CO_TRY_OK(co_await drive->walk_slices(bucket.id, std::nullopt, visit_slice));
    }
  }
  const nlohmann::json out{{"objects", objects}, {"pieces", slices}, {"bytes", bytes}};
  co_return co_await request.exchange.respond(http::Response(200, http::kJson, out.dump()));
}

}  // namespace tarn::target
