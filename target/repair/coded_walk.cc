#include "target/repair/coded_walk.h"

#include <algorithm>
#include <iterator>

#include "common/api/mirror_props.h"
#include "target/drive/record_pages.h"
#include "target/replica/away_drive.h"

namespace tarn::target {
namespace {

constexpr PageSize kCodedWalkPage{.records = 50'000, .items = kSlicesAtOnce};

/// True if records of a name may lie on several drives: always, or since one of them is, or was,
/// away and another one got what lies there.
bool on_several_drives(const TargetNode& node, const cluster::BucketRecord& bucket) {
  return api::copies_of(bucket.props) > 0 || node.store.may_hold_misplaced();
}

/// Records of a name on the drives that are there.
Task<Result<std::vector<Located>>> seen_of(TargetNode& node, ObjectName name) {
  if (name.copies > 0) co_return co_await node.store.find_seen(std::move(name));
  co_return co_await find_here(node, std::move(name));
}

/// Keeps of objects whose records lie on several drives those of which `drive` is the first to have
/// the newest.
Task<Status> keep_first_of(TargetNode& node, const Drive& drive,
                           std::vector<CodedObject>& objects) {
  std::vector<CodedObject> first;
  for (CodedObject& object : objects) {
    auto found = co_await seen_of(node, object.name);
    if (!found && object.name.copies > 0) co_return fail(found.error());
    if (found) {
      if (found->empty() || found->front().drive != &drive || !found->front().record.coding)
        continue;
      object.record = std::move(found->front().record);
    }
    first.push_back(std::move(object));
  }
  objects = std::move(first);
  co_return Status();
}

}  // namespace

Task<Status> walk_coded(TargetNode& node, cluster::BucketRecord bucket,
                        std::function<void(const std::vector<CodedObject>&)> visit,
                        NameRange range) {
  auto map = node.view.state()->ownership->map;
  const auto take_owned = [&](std::string_view object, io::ObjectRecord record,
                              std::vector<CodedObject>& to) {
    if (!record.coding) return;
    ObjectName name = name_in(bucket, std::string(object));
    if (cluster::writer_of(*map, cluster::placement_digest(name.uname)) == node.id)
      to.push_back({std::move(name), std::move(record)});
  };
  std::vector<CodedObject> gathered;  // of several drives: of a short range each has a few only
  for (const auto& drive : node.store.drives()) {
    if (!drive->in_service()) continue;
    RecordPages<CodedObject> pages(*drive, bucket.id, take_owned, kCodedWalkPage, range.after,
                                   {.up_to = range.last});
    while (pages.more()) {
      map = node.view.state()->ownership->map;
      CO_TRY(auto page, co_await pages.next());
      if (on_several_drives(node, bucket)) CO_TRY_OK(co_await keep_first_of(node, *drive, page));
      std::move(page.begin(), page.end(), std::back_inserter(gathered));
      if (gathered.size() < kSlicesAtOnce) continue;
      co_await ask_holders(node, gathered);
      visit(gathered);
      gathered.clear();
    }
  }
  if (gathered.empty()) co_return Status();
  co_await ask_holders(node, gathered);
  visit(gathered);
  co_return Status();
}

}  // namespace tarn::target
