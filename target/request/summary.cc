// One target's part of a bucket's summary: counted from the drives' indexes.

#include "common/api/summary.h"

#include <map>

#include <nlohmann/json.hpp>

#include "common/api/mirror_props.h"
#include "common/base/encoding.h"
#include "common/base/gather.h"
#include "common/obs/proc_files.h"
#include "target/drive/record_pages.h"
#include "target/replica/node_copies.h"
#include "target/request/handlers.h"

namespace tarn::target {
namespace {

/// About a tenth of a second, so that a long count keeps no thread for long.
constexpr PageSize kSummaryPage{.records = 100'000};
constexpr std::size_t kSummaryPageEntries = 10'000;

using Shows = std::function<bool(std::string_view)>;  // empty: all names

Task<Result<api::BucketSummary>> count_drive(Drive& drive, BucketId bucket, std::string prefix,
                                             Shows shows) {
  api::BucketSummary sum;
  const auto add = [&](std::string_view name, const io::ObjectRecord& record, auto&) {
    if (record.kind == io::ObjectRecord::Kind::object && (!shows || shows(name)))
      sum.add_object(record.size);
  };
  RecordPages<NoItem> pages(drive, bucket, add, kSummaryPage, "",
                            {.prefix = std::move(prefix), .purpose = TurnFor::client});
  while (pages.more()) CO_TRY_OK(co_await pages.next());
  co_return sum;
}

/// Counts the newest version of a name that may lie on two drives: only a merged list knows it.
Task<Result<api::BucketSummary>> count_by_generation(ObjectStore& store, BucketOnDrives bucket,
                                                     std::string prefix, Shows shows) {
  api::BucketSummary sum;
  std::string after;
  for (bool more = true; more;) {
    CO_TRY(const auto page, co_await store.list(bucket, prefix, after, kSummaryPageEntries, false));
    for (const auto& entry : page.entries)
      if (!shows || shows(entry.name)) sum.add_object(entry.record.size);
    more = page.more && !page.entries.empty();
    if (more) after = page.entries.back().name;
  }
  co_return sum;
}

/// The file systems of all drives. The id of one from statfs is its name on this machine;
/// containers of one machine see the same.
std::map<std::string, std::uint64_t> disks_of(const ObjectStore& store) {
  std::map<std::string, std::uint64_t> out;
  for (const auto& drive : store.drives())
    out[obs::read_boot_id() + "/" +
        (drive->mount().id.empty() ? drive->path() : drive->mount().id)] = drive->space().total;
  return out;
}

Task<Result<api::BucketSummary>> summary_count(ObjectStore& store, BucketOnDrives bucket,
                                               std::string prefix, Shows shows) {
  CO_TRY_OK(store.lists_all(bucket));
  if (bucket.copies > 0 || store.may_hold_misplaced())
    co_return co_await count_by_generation(store, bucket, prefix, std::move(shows));
  std::vector<Task<Result<api::BucketSummary>>> counts;
  for (const auto& drive : store.drives())
    counts.push_back(count_drive(*drive, bucket.id, prefix, shows));
  const auto parts = co_await gather(std::move(counts));
  api::BucketSummary sum;
  for (const auto& part : parts) {
    CO_TRY_OK(part);
    sum.add(*part);
  }
  co_return sum;
}

}  // namespace

Task<Status> summarize_bucket(TargetNode& node, http::Request& request) {
  const auto& query = request.query();
  const auto bucket = parse_u64(query.get("bucket"));
  const auto bmd_version = parse_u64(query.get("bmd"));
  if (!bucket || !bmd_version)
    co_return fail(Errc::invalid_argument, "summary: bucket and bmd are required");
  CO_TRY(const auto state, co_await node.view.at_least(0, *bmd_version));
  const auto id = BucketId(*bucket);
  CO_TRY(api::BucketSummary sum,
         co_await summary_count(node.store, on_drives(id, state->bmd.find(id)),
                                std::string(query.get("prefix")), names_to_show(node, state, id)));
  sum.disks = disks_of(node.store);
  http::Response response(200, http::kJson, nlohmann::json(sum).dump() + "\n");
  co_return co_await request.exchange.respond(std::move(response));
}

}  // namespace tarn::target
